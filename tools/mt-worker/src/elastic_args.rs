//! Options for training that is distributed over processes and continues from checkpoints.

use std::net::IpAddr;
use std::path::PathBuf;

use training::{Elastic, GroupRole, split};
use units::Batch;

/// Maximum number of processes per training: the number of GPUs that an allocator can give.
const MOST_PROCESSES: u32 = 64;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Elastic training (--device cpu)")]
pub struct ElasticArgs {
    /// Processes that share every step, started by this one unless it has a rank
    #[arg(long, value_name = "N", env = "MT_PROCESSES", default_value_t = 1)]
    processes: u32,
    /// Samples of each process in a step, rank 0 first; absent: --batch in equal parts
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    batches: Vec<u64>,
    /// Rank of this process, from 0, where each process is started by a launcher
    #[arg(long, value_name = "N", env = "RANK")]
    rank: Option<u32>,
    /// Processes in all, where this one has a rank
    #[arg(long, value_name = "N", env = "WORLD_SIZE")]
    world_size: Option<u32>,
    /// Address at which rank 0 listens
    #[arg(
        long,
        value_name = "IP",
        env = "MASTER_ADDR",
        default_value = "127.0.0.1"
    )]
    master_addr: IpAddr,
    /// Port at which rank 0 listens; needed where processes have ranks
    #[arg(long, value_name = "PORT", env = "MASTER_PORT")]
    master_port: Option<u16>,
    /// Continue from FILE if it exists; it is written during training, on SIGTERM, and at the end
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    checkpoint: Option<PathBuf>,
    /// Write the checkpoint every this many steps, 0: not during training; absent: at the interval that costs least,
    /// given the time of a checkpoint and one kill per hour
    #[arg(long, value_name = "STEPS", requires = "checkpoint")]
    checkpoint_every: Option<u64>,
    /// Done when the mean loss of the last ten steps is at most X
    #[arg(long, value_name = "X")]
    target_loss: Option<f64>,
}

impl ElasticArgs {
    /// Checks the options. Returns the batch size, 64 by default, and the distributed training; without one of these
    /// options, the latter is `None` (a single plain process). Faults are appended to `faults`.
    pub fn check(
        &self,
        batch: Option<u64>,
        standby: bool,
        faults: &mut Vec<String>,
    ) -> (Option<Batch>, Option<Elastic>) {
        let processes = self.world_size.unwrap_or(self.processes);
        self.check_ranks(processes, faults);
        if !(1..=MOST_PROCESSES).contains(&processes) {
            faults.push(format!(
                "--processes {processes}: give 1 to {MOST_PROCESSES}"
            ));
            return (None, None);
        }
        if !self.batches.is_empty() && self.batches.len() != processes as usize {
            let given = self.batches.len();
            faults.push(format!(
                "--batches: {given} sizes for {processes} processes; give one for each"
            ));
        }
        if let Some(at) = self.batches.iter().position(|b| *b == 0) {
            faults.push(format!("--batches: process {at} has no sample"));
        }
        let sum = self
            .batches
            .iter()
            .fold(0, |a: u64, b| a.saturating_add(*b));
        if let (Some(batch), true) = (batch, sum > 0)
            && batch != sum
        {
            faults.push(format!(
                "--batches: they add up to {sum}, and --batch (MT_BATCH_SIZE) is {batch}"
            ));
        }
        if self.target_loss.is_some_and(f64::is_nan) {
            faults.push("--target-loss: give a number".to_owned());
        }
        let number = if sum > 0 { sum } else { batch.unwrap_or(64) };
        let total = Batch::new(number).map_err(|error| faults.push(format!("--batch: {error}")));
        let Ok(total) = total else {
            return (None, None);
        };
        let samples = total.get() as usize;
        if samples < processes as usize {
            faults.push(format!(
                "--batch {samples}: fewer samples than the {processes} processes"
            ));
        }
        let plain = processes == 1
            && self.rank.is_none()
            && self.checkpoint.is_none()
            && self.target_loss.is_none();
        if plain {
            return (Some(total), None);
        }
        let given = self.batches.iter().map(|b| *b as usize).collect();
        let batches = match self.batches.is_empty() {
            true => split(samples, processes as usize),
            false => given,
        };
        let elastic = Elastic {
            place: self.place(),
            batches,
            checkpoint: self.checkpoint.clone(),
            checkpoint_every: self.checkpoint_every,
            target_loss: self.target_loss,
            standby,
        };
        (Some(total), Some(elastic))
    }

    fn check_ranks(&self, processes: u32, faults: &mut Vec<String>) {
        match (self.rank, self.world_size) {
            (None, None) => {}
            (Some(rank), Some(size)) => {
                if rank >= size {
                    faults.push(format!(
                        "--rank {rank}: give 0 to {}, for there are {size} processes",
                        size.saturating_sub(1)
                    ));
                }
                if size > 1 && self.master_port.is_none() {
                    faults.push(
                        "--rank: give --master-port (MASTER_PORT), where rank 0 listens".to_owned(),
                    );
                }
            }
            _ => faults.push(
                "--rank (RANK) and --world-size (WORLD_SIZE) belong together: give both or none"
                    .to_owned(),
            ),
        }
        if self.processes > 1 && self.processes != processes {
            faults.push(format!(
                "--processes {} (MT_PROCESSES): --world-size (WORLD_SIZE) is {processes}",
                self.processes
            ));
        }
    }

    fn place(&self) -> GroupRole {
        match self.rank {
            None => GroupRole::Parent,
            Some(rank) => GroupRole::Rank {
                rank,
                master: (self.master_addr, self.master_port.unwrap_or(0)),
            },
        }
    }
}
