//! Processes that stay parked between the tasks of their job and keep their state on the GPU.
//!
//! By default, switching jobs ends a process and starts another, which creates a context, imports libraries and loads
//! its model: seconds with PyTorch. A job with `"pool": true` has this cost only once per GPU. After a task its process
//! waits on standard input; the next task wakes it with the orders `task ROUND RANK` and `run`.

use std::time::Duration;

use jobs::Order;

use crate::driver::{Driver, Key, Parked, Run, Running};
use crate::{TaskPlace, Where};

/// Maximum number of parked processes on a GPU, for jobs with unknown memory: a CUDA context alone takes about 0.5 GB,
/// so eight take 4 GB. If the cluster specifies memory, that limits the number as well.
const MOST_PARKED: usize = 8;

impl Driver<'_> {
    /// Whether a process of the job stays after a task. Behind a prefix it would keep the resources that the engine
    /// gave it (a step of `srun` keeps its processors), and the next task would wait for them.
    pub fn can_stay(&self, job: usize) -> bool {
        let program = self.cluster.jobs[job].job.as_ref();
        program.is_some_and(|p| p.pool) && !matches!(self.settings.place, Where::Via(_))
    }

    /// Wakes a process of the task's job that is parked on the GPU, if there is one; returns its key and its slot.
    pub fn wake(
        &mut self,
        run: &mut Run<'_>,
        place: TaskPlace,
        gpu: usize,
    ) -> Option<(Key, usize)> {
        loop {
            let mut parked = self.parked.iter();
            let own = |p: &Parked| (p.job, p.gpu) == (place.job, gpu) && p.leaving.is_none();
            let (&id, &Parked { slot, .. }) = parked.find(|(_, p)| own(p))?;
            if self.order(run, id, place) {
                self.parked.remove(&id);
                return Some((id, slot));
            }
            self.dismiss(run, id);
        }
    }

    /// Gives a waiting process a task; false if it has gone.
    pub fn order(&self, run: &mut Run<'_>, id: Key, place: TaskPlace) -> bool {
        let task = Order::Task {
            round: place.round as u32,
            rank: place.task as u32,
        };
        let mut orders = [task, Order::Run].into_iter();
        orders.all(|order| run.order(id, order).is_ok())
    }

    /// Parks a process that has done its task and waits for another.
    pub fn park(&mut self, id: Key, running: Running) {
        let parked = Parked {
            job: running.place.job,
            gpu: running.gpu,
            slot: running.slot,
            leaving: None,
        };
        self.parked.insert(id, parked);
    }

    /// Ends a parked process.
    pub fn dismiss(&mut self, run: &mut Run<'_>, id: Key) {
        const WHY: &str = "it is not needed any more";
        let Some(parked) = self.parked.get_mut(&id) else {
            return;
        };
        let grace = self.settings.supervision.grace;
        let Some(told) = parked.leaving else {
            parked.leaving = Some(run.now());
            if run.order(id, Order::Quit).is_err() {
                run.stop(id, WHY.to_owned());
            }
            return;
        };
        if run.now().duration_since(told) > grace {
            run.stop_within(id, Duration::ZERO, WHY.to_owned());
        }
    }

    /// Ends the parked processes of a job or of a GPU.
    pub fn dismiss_those(&mut self, run: &mut Run<'_>, of: impl Fn(&Parked) -> bool) {
        let all = self.parked.iter().filter(|(_, p)| of(p));
        let ids: Vec<Key> = all.map(|(id, _)| *id).collect();
        for id in ids {
            self.dismiss(run, id);
        }
    }

    /// Whether a task can start on the GPU now: its job has a parked process there, or a new process fits beside the
    /// processes that still hold memory. These are parked processes, processes that were told to end but still run, and
    /// pool processes that synchronise their results. Parked processes are told to end until a process of the job fits,
    /// starting with the one whose job comes last in the GPU's queue or not at all. (This is the policy of Belady 1966,
    /// which is optimal because the queue is known.)
    pub fn room(&mut self, run: &mut Run<'_>, gpu: usize, job: usize) -> bool {
        let mut waiting: Vec<(Key, usize)> = Vec::new();
        let mut leaving: Vec<(Key, usize)> = Vec::new();
        for (&id, parked) in self.parked.iter().filter(|(_, p)| p.gpu == gpu) {
            match parked.leaving {
                None if parked.job == job => return true,
                None => waiting.push((id, parked.job)),
                Some(_) => leaving.push((id, parked.job)),
            }
        }
        let groups = self.cluster.gpu_groups();
        let capacity = self.cluster.groups[groups[gpu]].memory;
        let need = |n: usize| self.cluster.jobs[n].memory.unwrap_or(0.0);
        let running = self.running.values();
        // On shared GPUs, processes that train there stay beside the new one.
        let shared = !self.cluster.sharing.is_empty();
        let holds = |r: &&Running| r.stays || (shared && r.trained.is_none());
        let running = running.filter(|r| r.gpu == gpu).filter(holds);
        let held: f64 = running.map(|r| need(r.place.job)).sum::<f64>();
        let fits = |waiting: &[(Key, usize)], leaving: &[(Key, usize)]| {
            let parked: f64 = waiting.iter().chain(leaving).map(|&(_, n)| need(n)).sum();
            let all = held + parked;
            all <= 0.0 || capacity.is_none_or(|most| all + need(job) <= most)
        };
        let next = |n: usize| self.agenda.next_use(gpu, n).unwrap_or(usize::MAX);
        waiting.sort_by_key(|&(_, n)| next(n));
        while !fits(&waiting, &[]) || waiting.len() >= MOST_PARKED {
            let Some(last) = waiting.pop() else { break };
            leaving.push(last);
        }
        let now = fits(&waiting, &leaving);
        for (id, _) in leaving {
            self.dismiss(run, id);
        }
        now
    }
}
