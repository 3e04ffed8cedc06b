//! Images of the waits for attributes of files with delegations for writing.

use super::{GETATTR_WAITS_MAX, GetattrWaits, WaitStage};
use crate::ClientKey;
use crate::table::image::KeyImage;
use minicbor::{Decode, Encode};

/// The clients that wait for the attributes of a file, and whether its holder is being asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct GetattrWaitsImage {
    #[n(0)]
    clients: Vec<(KeyImage, StageImage)>,
    #[n(1)]
    under_way: bool,
    #[n(2)]
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
enum StageImage {
    #[n(0)]
    Late,
    #[n(1)]
    Asked,
    /// The holder's change and size, from earlier versions. The next process asks again.
    #[n(2)]
    Answered(#[n(0)] u64, #[n(1)] u64),
}

impl GetattrWaits {
    pub(crate) fn image(&self) -> GetattrWaitsImage {
        let Self { clients, under_way, refused } = self;
        let clients = clients.iter().filter_map(|(client, stage)| {
            let stage = match *stage {
                WaitStage::Late => StageImage::Late,
                WaitStage::Asked => StageImage::Asked,
                WaitStage::Answered(..) => return None,
            };
            Some((client.0.into(), stage))
        });
        GetattrWaitsImage { clients: clients.collect(), under_way: *under_way, refused: *refused }
    }

    pub(crate) fn restore(image: GetattrWaitsImage) -> Self {
        let GetattrWaitsImage { clients, under_way, refused } = image;
        let clients = clients.into_iter().take(GETATTR_WAITS_MAX).filter_map(|(client, stage)| {
            let stage = match stage {
                StageImage::Late => WaitStage::Late,
                StageImage::Asked => WaitStage::Asked,
                StageImage::Answered(..) => return None,
            };
            Some((ClientKey(client.into()), stage))
        });
        Self { clients: clients.collect(), under_way, refused }
    }
}
