//! `mt-cluster run`.

use ::drive::RunRequest;
use cli::{Console, Exit, Failure, Replaced};
use doc::DeviceKind;

use crate::args::RunArgs;

/// Runs every schedule, one after another.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    let (supervision, limits) = args.limits.checked(&args.supervision)?;
    let request = RunRequest {
        via: args.via.as_deref(),
        device: args.device.map(DeviceKind::from),
        supervision,
        limits,
        metrics: args.limits.metrics()?,
        attach_mps: args.attach_mps,
        seed: args.seed.seed,
        journal: args.journal.as_deref(),
        resume: args.resume,
        events: args.events.clone(),
        status: args.status.as_deref().map(Replaced::claim).transpose()?,
        files: &args.stream.files,
        output: args.stream.output.as_deref(),
    };
    let (input, mut output) = args.stream.open("schedules", console)?;
    let exit = request.run_all(input.documents(), &mut output, console)?;
    output.finish_events(exit, console)
}
