//! The tasks of a GPU in their planned order.

use std::collections::VecDeque;

use crate::{Assignment, TaskPlace};

/// A task and the equal rounds after it, with the planned start of the first.
#[derive(Debug, Clone, Copy)]
struct Entry {
    place: TaskPlace,
    start: f64,
    rounds: usize,
    period: f64,
}

/// The queue of a GPU. Equal rounds are one entry; when its first round is taken, the rest moves to
/// the place of its next planned start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lane(VecDeque<Entry>);

impl Lane {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends an assignment as the task number `task` of its round.
    pub fn push(&mut self, a: &Assignment, task: usize) {
        self.0.push_back(Entry {
            place: TaskPlace { task, ..a.place() },
            start: a.start,
            rounds: a.rounds,
            period: a.period,
        });
    }

    /// Puts a task before all others.
    pub fn push_front(&mut self, place: TaskPlace, start: f64) {
        self.0.push_front(Entry {
            place,
            start,
            rounds: 1,
            period: 0.0,
        });
    }

    /// The next task.
    pub fn front(&self) -> Option<TaskPlace> {
        self.get(0)
    }

    pub fn get(&self, at: usize) -> Option<TaskPlace> {
        self.0.get(at).map(|e| e.place)
    }

    /// Takes the next task.
    pub fn pop(&mut self) -> Option<TaskPlace> {
        self.take(0)
    }

    fn take(&mut self, at: usize) -> Option<TaskPlace> {
        let entry = self.0.remove(at)?;
        if entry.rounds > 1 {
            let rest = Entry {
                place: TaskPlace {
                    round: entry.place.round + 1,
                    ..entry.place
                },
                start: entry.start + entry.period,
                rounds: entry.rounds - 1,
                ..entry
            };
            let behind = self.0.iter().position(|e| e.start > rest.start);
            self.0.insert(behind.unwrap_or(self.0.len()), rest);
        }
        Some(entry.place)
    }

    /// Removes a task, which must be the first of its entry.
    pub fn remove(&mut self, place: TaskPlace) {
        if let Some(at) = self.0.iter().position(|e| e.place == place) {
            self.take(at);
        }
    }

    pub fn remove_job(&mut self, job: usize) {
        self.0.retain(|e| e.place.job != job);
    }

    /// Removes entries whose last round is done.
    pub fn remove_done(&mut self, done: impl Fn(&TaskPlace) -> bool) {
        self.0.retain(|e| {
            let round = e.place.round + e.rounds - 1;
            !done(&TaskPlace { round, ..e.place })
        });
    }

    /// The first task of each entry with its planned start.
    pub fn iter(&self) -> impl Iterator<Item = (TaskPlace, f64)> {
        self.0.iter().map(|e| (e.place, e.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_two_entries_alternate_as_planned() {
        let entry = |task, start| Assignment {
            job: 0,
            round: 5,
            task,
            gpu: 0,
            switch: 0.0,
            start,
            trained: start + 1.0,
            synced: start + 1.5,
            rounds: 3,
            period: 2.5,
        };
        let mut lane = Lane::default();
        lane.push(&entry(0, 10.0), 0);
        lane.push(&entry(1, 11.0), 1);
        let later = Assignment {
            rounds: 1,
            ..entry(7, 14.0)
        };
        lane.push(&later, 7);
        let order: Vec<(usize, usize)> =
            std::iter::from_fn(|| lane.pop().map(|p| (p.round, p.task))).collect();
        let wanted = [(5, 0), (5, 1), (6, 0), (6, 1), (5, 7), (7, 0), (7, 1)];
        assert_eq!(order, wanted);
    }
}
