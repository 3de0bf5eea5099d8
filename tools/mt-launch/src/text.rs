use std::collections::BTreeMap;
use std::fmt::Write as _;

use cli::Failure;
use doc::DeviceKind;

use launch::exec::Placement;

/// How variables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `NAME=value`, nothing quoted: docker --env-file, systemd, kubectl --from-env-file
    Env,
    /// `export NAME='value'` for a shell
    Sh,
    /// One object; without a task, one for each task by its name
    Json,
}

/// The variables of a task, or of all tasks, which only JSON can represent.
///
/// # Errors
/// [`Failure::Usage`] if there is no such task, or several and the format is for one; [`Failure::Input`] if a value
/// cannot be written in the format.
pub fn variables_of(
    all: Vec<Placement>,
    task: Option<&str>,
    pipe_dir: Option<&str>,
    format: Format,
) -> Result<String, Failure> {
    let chosen = match task {
        Some(task) => vec![Placement::choose(all, task)?],
        None if all.len() > 1 && format != Format::Json => {
            let each: Vec<String> = all.iter().filter_map(Placement::name).collect();
            let names = each.join(", ");
            return Err(Failure::Usage(format!(
                "the plan has the tasks {names}; give --task"
            )));
        }
        None => all,
    };
    variables_text(&chosen, pipe_dir, format, task.is_some())
}

/// The variables of tasks; `pipe_dir` is the MPS daemon's pipe directory as the programs will see it. In JSON, a single
/// requested task (`one`) becomes one plain object.
///
/// # Errors
/// [`Failure::Input`] if a value cannot be written in the format.
fn variables_text(
    chosen: &[Placement],
    pipe_dir: Option<&str>,
    format: Format,
    one: bool,
) -> Result<String, Failure> {
    let variables = |placement: &Placement| {
        let mut all = placement.variables();
        let pipe = pipe_dir.filter(|_| placement.device == DeviceKind::Cuda);
        all.extend(pipe.map(|dir| ("CUDA_MPS_PIPE_DIRECTORY".to_owned(), dir.to_owned())));
        all
    };
    if format == Format::Json {
        let object = |p: &Placement| variables(p).into_iter().collect::<BTreeMap<_, _>>();
        let json = match chosen {
            [task] if one => serde_json::to_string_pretty(&object(task)),
            _ => {
                let all = chosen
                    .iter()
                    .map(|p| (p.name().unwrap_or_default(), object(p)));
                serde_json::to_string_pretty(&all.collect::<BTreeMap<_, _>>())
            }
        };
        let json = json.map_err(|error| Failure::Environment(error.to_string()))?;
        return Ok(json + "\n");
    }
    let mut text = String::new();
    for (name, value) in chosen.iter().flat_map(variables) {
        // The format has no quoting, so a line end cannot be written.
        if format == Format::Env && value.contains(['\n', '\r']) {
            let text = format!("{name} holds a line end; use -f sh or -f json");
            return Err(Failure::Input(text));
        }
        // Writing to a String cannot fail.
        let _ = match format {
            Format::Sh => writeln!(text, "export {name}={}", cli::shell_word(&value)),
            Format::Env | Format::Json => writeln!(text, "{name}={value}"),
        };
    }
    Ok(text)
}
