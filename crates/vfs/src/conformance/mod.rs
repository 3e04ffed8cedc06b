//! One suite for all backends: the behaviour that a server relies on, each test a sentence.
//!
//! [`backend_conformance!`](crate::backend_conformance) makes a `#[test]` of each; a backend gives
//! a function that returns a fresh [`Fixture`], or `None` with a printed reason where it cannot
//! run.

#![expect(clippy::unwrap_used, reason = "the suite runs in tests, which fail by panicking")]

pub mod acls;
pub mod attributes;
pub mod data;
pub mod directories;
pub mod handles;
pub mod links;
pub mod names;
pub mod permissions;
pub mod renames;
pub mod sparse;
pub mod xattrs;

use crate::{
    Attributes, Backend, Caller, FoundObject, NewObject, ObjectHandle, OpenAccess, OpenFile, RenamedObjects,
    SetAttributes, VfsError, VfsResult,
};
use std::{any::Any, sync::Arc};

/// An empty file system to test, its root owned by `owner` with mode 0755.
pub struct Fixture {
    /// The file system under test.
    pub backend: Arc<dyn Backend>,
    /// The owner of the root: the superuser, or the user that the backend runs as.
    pub owner: Caller,
    /// Whether the backend distinguishes callers; otherwise tests of permissions are skipped.
    pub identities: bool,
    /// Whether the file system knows holes and counts the space that they save.
    pub holes: bool,
    /// A resource that must outlive the file system, such as a temporary directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// An open for READ alone.
pub const READ: OpenAccess = OpenAccess { read: true, write: false };
/// An open for WRITE alone.
pub const WRITE: OpenAccess = OpenAccess { read: false, write: true };
/// An open for READ and WRITE.
pub const BOTH: OpenAccess = OpenAccess { read: true, write: true };

/// Returns attributes that set a mode.
pub fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

/// Returns a caller with one group and no others.
pub fn user(id: u32) -> Caller {
    Caller { uid: id, gid: id, groups: [].into() }
}

/// Returns a caller with supplementary groups.
pub fn member(id: u32, groups: &[u32]) -> Caller {
    Caller { uid: id, gid: id, groups: groups.into() }
}

/// Short forms of common operations. Each fails the test when the backend refuses.
impl Fixture {
    /// Returns the root's handle.
    pub fn root(&self) -> ObjectHandle {
        self.backend.root()
    }

    /// Makes a regular file of the owner's, open for reading and writing.
    pub fn file(&self, directory: &ObjectHandle, name: &str) -> (ObjectHandle, Arc<dyn OpenFile>) {
        self.file_of(&self.owner, directory, name, 0o644)
    }

    /// Makes a regular file of a caller's with a mode, open for reading and writing.
    pub fn file_of(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &str,
        bits: u32,
    ) -> (ObjectHandle, Arc<dyn OpenFile>) {
        let made = self.backend.create_file(caller, directory, name.as_bytes(), BOTH, &mode(bits));
        made.unwrap_or_else(|error| panic!("create {name}: {error}"))
    }

    /// Makes a directory of the owner's.
    pub fn directory(&self, directory: &ObjectHandle, name: &str) -> ObjectHandle {
        self.directory_of(&self.owner, directory, name, 0o755)
    }

    /// Makes a directory of a caller's with a mode.
    pub fn directory_of(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &str,
        bits: u32,
    ) -> ObjectHandle {
        let made = self.backend.create(caller, directory, name.as_bytes(), NewObject::Directory, &mode(bits));
        made.unwrap_or_else(|error| panic!("mkdir {name}: {error}"))
    }

    /// Finds a name as the owner.
    pub fn lookup(&self, directory: &ObjectHandle, name: &str) -> VfsResult<ObjectHandle> {
        self.backend.lookup(&self.owner, directory, name.as_bytes())
    }

    /// Returns the attributes of an object that exists.
    pub fn attributes(&self, object: &ObjectHandle) -> Attributes {
        self.backend.getattr(object).unwrap_or_else(|error| panic!("getattr: {error}"))
    }

    /// Changes attributes as the owner.
    pub fn set(&self, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        self.backend.setattr(&self.owner, object, set)
    }

    fn found(&self, (directory, name): (&ObjectHandle, &[u8])) -> Option<FoundObject> {
        self.backend.lookup_to_change(&self.owner, directory, name).ok()
    }

    /// Renames as the owner, in the steps of the server.
    pub fn rename(&self, from: (&ObjectHandle, &str), to: (&ObjectHandle, &str)) -> VfsResult<()> {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        let Some(source) = self.found(from) else {
            return self.backend.rename(&self.owner, from, to, None);
        };
        if self.backend.rename_new(&self.owner, from, to, &source)? {
            return Ok(());
        }
        let found = RenamedObjects { source, target: self.found(to) };
        self.backend.rename(&self.owner, from, to, Some(&found))
    }

    /// Removes as the owner, in the steps of the server.
    pub fn remove(&self, directory: &ObjectHandle, name: &str) -> VfsResult<()> {
        let found = self.found((directory, name.as_bytes()));
        self.backend.remove(&self.owner, directory, name.as_bytes(), found.as_ref())
    }

    /// Lists a directory as the owner, in one go: cookie, name, fileid.
    pub fn list(&self, directory: &ObjectHandle) -> Vec<(u64, String, u64)> {
        let mut all = Vec::new();
        let end = self.backend.readdir(&self.owner, directory, 0, &mut |entry| {
            all.push((entry.cookie, String::from_utf8_lossy(entry.name).into_owned(), entry.fileid));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(end, Ok(crate::Eof::Reached), "the listing reaches the end");
        all
    }

    /// Reads a whole file as the owner.
    pub fn content(&self, object: &ObjectHandle) -> Vec<u8> {
        let file =
            self.backend.open(&self.owner, object, READ).unwrap_or_else(|error| panic!("open: {error}"));
        let mut data = Vec::new();
        file.read_at(&mut data, 1 << 20, 0).unwrap_or_else(|error| panic!("read: {error}"));
        data
    }

    /// Returns whether tests of permissions make sense here, and says so when not.
    pub fn tells_callers_apart(&self) -> bool {
        if !self.identities {
            eprintln!("skipped: this backend serves as one user");
        }
        self.identities
    }
}

/// Asserts that permission was refused: `Access`, or `Perm` as some file systems say it.
pub fn assert_refused<T: std::fmt::Debug>(result: VfsResult<T>) {
    match result {
        Err(VfsError::Access | VfsError::Perm) => {}
        other => panic!("expected Access or Perm, got {other:?}"),
    }
}

/// Makes a test of each sentence of the suite. `$make` is a function `fn() -> Option<Fixture>`.
#[macro_export]
macro_rules! backend_conformance {
    ($make:path) => {
        $crate::backend_conformance! { @tests $make;
            names::lookup_finds_what_was_created,
            names::lookup_of_an_unknown_name_is_noent,
            names::lookup_in_a_file_is_notdir,
            names::lookup_in_a_symlink_is_symlink,
            names::lookup_with_attributes_agrees_with_lookup_and_getattr,
            names::lookup_to_change_agrees_with_lookup,
            names::creating_an_existing_name_is_exist,
            names::only_one_of_many_creators_wins,
            names::a_name_of_255_bytes_works_and_a_longer_one_is_refused,
            names::names_are_bytes_and_keep_their_case,
            names::lookup_parent_leads_up_to_the_root_and_not_beyond,
            names::special_files_keep_their_type_and_numbers,
            names::a_device_with_numbers_beyond_those_of_linux_is_refused,
            names::removing_a_file_frees_its_name,
            names::removing_a_directory_that_is_not_empty_is_notempty,
            names::a_removed_directory_takes_no_new_entries,
            data::written_data_is_read_back,
            data::reading_stops_at_the_end_of_the_file,
            data::pages_of_a_file_are_its_data,
            data::a_hole_reads_as_zeros,
            data::truncation_cuts_and_extends_with_zeros,
            data::size_set_through_the_open_file_needs_no_permission,
            data::an_open_file_is_readable_after_its_removal,
            data::an_open_file_is_writable_after_its_mode_is_zero,
            data::creating_with_mode_zero_still_opens_the_file,
            data::opening_what_is_not_a_file_says_what_it_is,
            data::create_applies_size_and_times,
            data::many_threads_read_and_write_one_file,
            data::commit_and_sync_succeed,
            data::large_transfers_are_whole,
            data::an_offset_beyond_the_largest_file_is_refused,
            sparse::data_and_holes_are_found,
            sparse::deallocated_bytes_are_zeros_and_take_no_space,
            sparse::allocated_bytes_take_space_and_keep_what_was_written,
            sparse::advice_changes_nothing_that_is_read,
            sparse::a_range_is_copied_from_file_to_file,
            sparse::a_clone_is_equal_until_either_side_is_written,
            permissions::the_umask_takes_bits_from_the_mode_of_what_is_made,
            xattrs::extended_attributes_are_set_read_listed_and_removed,
            xattrs::an_extended_attribute_is_created_or_replaced_as_asked,
            xattrs::extended_attributes_that_are_too_long_are_refused,
            xattrs::extended_attributes_need_the_rights_to_the_data,
            xattrs::only_files_and_directories_take_extended_attributes,
            acls::a_list_is_kept_and_the_mode_goes_with_it,
            acls::a_list_says_who_may,
            acls::only_the_owner_changes_the_list,
            acls::a_list_of_the_superuser_keeps_the_set_group_id_bit,
            acls::new_objects_get_the_default_list_of_their_directory,
            acls::a_list_is_set_on_what_is_being_made,
            acls::a_directory_with_a_list_inherits_the_set_group_id_bit,
            acls::a_list_of_three_hundred_entries_is_kept,
            permissions::the_owner_class_applies_to_the_owner_alone,
            permissions::the_group_class_applies_to_members_and_supplementary_groups,
            permissions::others_get_the_last_class,
            permissions::every_set_of_rights_is_told_apart,
            permissions::opening_needs_the_rights_that_it_asks_for,
            permissions::the_owner_alone_may_open_past_the_mode,
            permissions::callers_that_may_execute_a_program_may_open_it_for_reading,
            permissions::searching_a_directory_needs_execute,
            permissions::listing_a_directory_needs_read,
            permissions::creating_and_removing_need_write_on_the_directory,
            permissions::a_sticky_directory_keeps_others_from_removing,
            permissions::a_setgid_directory_gives_its_group,
            permissions::the_superuser_makes_set_group_id_files_of_any_group,
            permissions::new_objects_belong_to_the_caller,
            permissions::only_the_owner_changes_the_mode,
            permissions::only_the_superuser_gives_files_away,
            permissions::an_owner_may_give_a_file_to_its_own_groups_only,
            permissions::setgid_is_dropped_for_a_group_of_others,
            permissions::devices_are_for_the_superuser,
            permissions::truncating_by_name_needs_write_permission,
            permissions::the_superuser_passes_all_classes,
            permissions::callers_in_turn_keep_their_own_rights,
            permissions::a_caller_with_many_groups_is_served,
            attributes::a_new_file_has_sensible_attributes,
            attributes::the_change_attribute_moves_on_each_change,
            attributes::a_directory_changes_with_its_entries,
            attributes::reading_does_not_move_the_change_attribute,
            attributes::times_are_set_to_a_given_value,
            attributes::times_set_to_now_are_recent,
            attributes::times_need_ownership_but_now_needs_write_permission_only,
            attributes::a_write_moves_mtime_and_change,
            attributes::set_id_bits_are_cleared_by_a_write,
            attributes::a_new_file_with_a_size_keeps_its_set_id_bits,
            attributes::set_id_bits_are_cleared_by_chown,
            attributes::the_mode_keeps_its_twelve_bits,
            attributes::attributes_of_the_open_file_agree,
            attributes::statfs_gives_sizes_and_limits,
            links::a_hard_link_is_the_same_object,
            links::removing_one_name_keeps_the_other,
            links::a_directory_cannot_be_linked,
            links::linking_over_an_existing_name_is_exist,
            links::a_symlink_is_read_and_never_followed,
            links::readlink_of_a_file_is_wrong_type,
            links::a_symlink_cannot_be_opened,
            links::a_symlink_in_the_way_is_not_written_through,
            links::directories_count_their_subdirectories,
            renames::a_name_moves_within_and_between_directories,
            renames::renaming_over_a_file_replaces_it,
            renames::a_rename_to_a_free_name_leaves_others_alone,
            renames::renaming_over_an_empty_directory_replaces_it,
            renames::renaming_over_a_directory_that_is_not_empty_is_notempty,
            renames::renaming_a_file_over_a_directory_is_exist,
            renames::renaming_a_directory_over_a_file_is_exist,
            renames::a_directory_cannot_move_below_itself,
            renames::renaming_between_two_names_of_one_object_does_nothing,
            renames::renaming_what_is_not_there_is_noent,
            renames::a_moved_directory_has_its_new_parent,
            renames::renaming_needs_write_on_both_directories,
            renames::a_sticky_directory_keeps_others_from_renaming,
            renames::a_directory_of_others_does_not_move_between_parents,
            directories::listing_gives_each_entry_once,
            directories::listing_continues_from_every_cookie,
            directories::thousands_of_entries_are_listed_in_pieces,
            directories::entries_that_stay_are_listed_once_while_others_come_and_go,
            directories::an_emptied_directory_can_be_removed_while_listing,
            directories::listing_a_file_is_notdir,
            directories::cookies_are_never_reserved_values,
            directories::an_entry_callback_may_use_the_same_directory,
            handles::a_handle_survives_a_rename,
            handles::a_handle_is_stale_after_the_last_name_is_gone,
            handles::an_object_that_is_held_is_synchronised_after_the_last_name_is_gone,
            handles::a_handle_survives_while_one_name_is_left,
            handles::a_new_file_of_the_same_name_has_another_handle,
            handles::handles_are_equal_for_one_object_and_differ_otherwise,
            handles::a_forged_handle_never_leads_to_another_object,
            handles::handles_of_random_bytes_are_refused,
            handles::thousands_of_handles_resolve_in_any_order,
        }
    };
    (@tests $make:path; $($group:ident :: $name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                if let Some(fixture) = $make() {
                    $crate::conformance::$group::$name(&fixture);
                }
            }
        )*
    };
}
