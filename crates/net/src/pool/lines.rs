//! What waits and what runs in a pool, by line: a line that hangs leaves room for the others.

use super::PoolLimits;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The tasks of a pool.
#[derive(Debug)]
pub(super) struct Lines<T, L> {
    limits: PoolLimits,
    /// Those that have something waiting or running.
    lines: HashMap<L, Tasks<T>>,
    /// Those that have something waiting, by turns.
    turns: VecDeque<L>,
    waiting: usize,
    bytes: usize,
    running: usize,
}

#[derive(Debug)]
struct Tasks<T> {
    /// Each with the bytes that it holds.
    tasks: VecDeque<(T, usize)>,
    bytes: usize,
    running: usize,
}

/// What tells the lines of a pool apart.
pub trait Line: Copy + Eq + Hash + Send + 'static {}

impl<L: Copy + Eq + Hash + Send + 'static> Line for L {}

impl<T, L> Lines<T, L> {
    pub(super) fn new(limits: PoolLimits) -> Self {
        let (lines, turns) = (HashMap::new(), VecDeque::new());
        Self { limits, lines, turns, waiting: 0, bytes: 0, running: 0 }
    }
}

impl<T, L: Line> Lines<T, L> {
    /// What one line may have of `max`, of which all have `all` and it has `own`: a part of what the others leave.
    fn share(&self, max: usize, all: usize, own: usize) -> usize {
        max.saturating_sub(all - own).div_ceil(self.limits.line_part.max(1))
    }

    /// Puts a task at the end of its line.
    ///
    /// # Errors
    /// The task, when there is no room for it.
    pub(super) fn push(&mut self, line: L, task: T, bytes: usize) -> Result<(), T> {
        let PoolLimits { tasks_max, tasks_bytes_max, .. } = self.limits;
        let (own, own_bytes) = self.lines.get(&line).map_or((0, 0), |line| (line.tasks.len(), line.bytes));
        let tasks_full = own >= self.share(tasks_max, self.waiting, own);
        // What is too large by itself has to go at some time.
        let bytes_full =
            own > 0 && own_bytes.saturating_add(bytes) > self.share(tasks_bytes_max, self.bytes, own_bytes);
        if tasks_full || bytes_full || self.waiting >= tasks_max {
            return Err(task);
        }
        if own == 0 {
            self.turns.push_back(line);
        }
        let empty = || Tasks { tasks: VecDeque::new(), bytes: 0, running: 0 };
        let own = self.lines.entry(line).or_insert_with(empty);
        own.tasks.push_back((task, bytes));
        own.bytes += bytes;
        self.waiting += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes a task to run, the first of the next line that may run one more.
    pub(super) fn pop(&mut self) -> Option<(L, T)> {
        for _ in 0..self.turns.len() {
            let number = self.turns.pop_front()?;
            let may_run = self.room(number) > 0;
            let Some(line) = self.lines.get_mut(&number) else { continue };
            let task = if may_run { line.tasks.pop_front() } else { None };
            if let Some((_, bytes)) = task {
                line.bytes -= bytes;
                line.running += 1;
            }
            if !line.tasks.is_empty() {
                self.turns.push_back(number);
            }
            if let Some((task, bytes)) = task {
                self.waiting -= 1;
                self.bytes -= bytes;
                self.running += 1;
                return Some((number, task));
            }
        }
        None
    }

    /// Takes note that a task of a line has been run.
    pub(super) fn done(&mut self, number: L) {
        let Some(line) = self.lines.get_mut(&number) else { return };
        line.running = line.running.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        if line.running == 0 && line.tasks.is_empty() {
            self.lines.remove(&number);
        }
    }

    /// How many more tasks of a line may run.
    fn room(&self, number: L) -> usize {
        let running = self.lines.get(&number).map_or(0, |line| line.running);
        self.share(self.limits.threads_max, self.running, running).saturating_sub(running)
    }

    /// How many of the tasks that wait could run, had they a thread.
    pub(super) fn runnable(&self) -> usize {
        self.lines.iter().map(|(number, line)| line.tasks.len().min(self.room(*number))).sum()
    }

    /// Tasks that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether more waits than this part of what may.
    pub(super) fn is_crowded(&self, part: usize) -> bool {
        self.waiting > self.limits.tasks_max / part || self.bytes > self.limits.tasks_bytes_max / part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(threads_max: usize, tasks_max: usize) -> Lines<u32, u32> {
        Lines::new(PoolLimits { threads_max, tasks_max, tasks_bytes_max: 1000, line_part: 2, niceness: 0 })
    }

    fn run_all(lines: &mut Lines<u32, u32>) -> Vec<u32> {
        std::iter::from_fn(|| lines.pop()).map(|(line, _)| line).collect()
    }

    #[test]
    fn a_line_that_hangs_takes_half_of_the_threads_and_each_further_one_half_of_the_rest() {
        let mut lines = lines(8, 1000);
        for (line, gets) in [(1, 4), (2, 2), (3, 1), (4, 1)] {
            (0..20).for_each(|task| lines.push(line, task, 1).unwrap());
            assert_eq!(lines.runnable(), gets);
            assert_eq!(run_all(&mut lines), vec![line; gets]);
        }
        // What ends makes room for a line that has less than its share, and not for the one that has most.
        lines.done(1);
        lines.done(1);
        assert_eq!(run_all(&mut lines), [3]);
    }

    #[test]
    fn tasks_of_several_lines_take_turns_and_keep_their_order_in_each() {
        let mut lines = lines(100, 1000);
        for (line, task) in [(1, 10), (1, 11), (1, 12), (2, 20), (2, 21)] {
            lines.push(line, task, 1).unwrap();
        }
        let order: Vec<u32> = std::iter::from_fn(|| lines.pop()).map(|(_, task)| task).collect();
        assert_eq!(order, [10, 20, 11, 21, 12]);
        [1, 1, 1, 2, 2].into_iter().for_each(|line| lines.done(line));
        assert!(lines.lines.is_empty());
        assert_eq!((lines.waiting, lines.bytes, lines.running), (0, 0, 0));
    }

    #[test]
    fn what_waits_of_one_line_leaves_room_for_what_waits_of_others() {
        let mut lines = lines(1, 8);
        assert_eq!((0..8).filter(|task| lines.push(1, *task, 1).is_ok()).count(), 4);
        assert_eq!((0..8).filter(|task| lines.push(2, *task, 1).is_ok()).count(), 2);
        assert!(lines.push(3, 0, 2000).is_ok(), "too large for any share, but alone in its line");
        assert!(lines.push(3, 0, 1).is_err());
    }
}
