//! The configuration formats of other systems.
//!
//! A form leaves out unknown values. If the system requires such a value, there is no block, and an error gives the
//! reason.

use super::amount::{CAP, mebibytes, only_gpus, part, with_margin};
use super::found::Found;
use super::kubernetes::{k8s, kai};

/// A system that takes the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// NVIDIA MPS: environment of each client, and the commands of its control program
    Mps,
    /// NVIDIA MPS v3: its configuration file (TOML), a namespace for each template
    Mps3,
    /// AWS ECS: a task definition (JSON)
    Ecs,
    /// KAI scheduler: a pod (YAML)
    Kai,
    /// Kubernetes with NVIDIA's device plugin: a job (YAML)
    K8s,
    /// Slurm: lines of a batch script
    Slurm,
    /// Ray: arguments of `.options()` (Python)
    Ray,
    /// Flower: ~/.flwr/config.toml
    Flower,
    /// NVIDIA FLARE: options of its simulator (shell)
    Nvflare,
}

/// The comment before a block: template, device, and how the values were measured.
fn comment(found: &Found) -> String {
    let mut lines = vec![format!(
        "{} on {}",
        cli::one_line(&found.template),
        found.device
    )];
    lines.extend(found.measured.iter().cloned());
    if found.ram.or(found.device_memory).is_some() {
        lines.push("memory is the most that was seen, and a tenth".to_owned());
    }
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// The block of a template and device.
///
/// # Errors
/// The reason why the form cannot express this result.
pub fn block(form: Form, found: &Found) -> Result<String, String> {
    let known = [found.ram, found.device_memory].iter().any(Option::is_some);
    if !known && found.at_once.is_none() && found.cap_percent.is_none() {
        return Err("nothing was measured yet".to_owned());
    }
    let text = match form {
        Form::Mps => mps(found)?,
        Form::Mps3 => mps3(found)?,
        Form::Ecs => return ecs(found),
        Form::Kai => kai(found)?,
        Form::K8s => k8s(found),
        Form::Slurm => slurm(found),
        Form::Ray => ray(found),
        Form::Flower => flower(found)?,
        Form::Nvflare => nvflare(found)?,
    };
    Ok(comment(found) + &text)
}

/// All blocks as one text.
#[must_use]
pub fn join(form: Form, blocks: &[String]) -> String {
    match form {
        Form::Mps3 => format!("schema_version = \"1.0\"\n\n{}", blocks.join("\n")),
        Form::Kai | Form::K8s => blocks.join("---\n"),
        _ => blocks.join("\n"),
    }
}

/// A comment line with the number of jobs at once, for systems without a setting for it.
fn at_once(found: &Found) -> String {
    found
        .at_once
        .map_or_else(String::new, |n| format!("# start at most {n} at once\n"))
}

fn mps(found: &Found) -> Result<String, String> {
    only_gpus(found, "MPS")?;
    let mut text = at_once(found);
    if let Some(cap) = found.cap_percent {
        text += &format!(
            "# or for all clients: set_default_active_thread_percentage {cap:.0}\n{CAP}={cap:.0}\n"
        );
    } else {
        text += "# no cap was tried: each may use the whole GPU\n";
    }
    if let Some(memory) = found.device_memory.map(mebibytes) {
        text += &format!("# or for all clients: set_default_device_pinned_mem_limit 0 {memory}M\n");
        text += &format!("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={memory}M\n");
    }
    Ok(text)
}

fn mps3(found: &Found) -> Result<String, String> {
    only_gpus(found, "MPS")?;
    let mut text = at_once(found);
    // One server for each kind of GPU, since clients of two servers take turns on a GPU instead of sharing it.
    text += &format!("[servers.{}.namespaces.{}]\n", found.device, found.name);
    if let Some(cap) = found.cap_percent {
        text += &format!("active_thread_percentage = \"{cap:.0}\"\n");
    }
    if let Some(memory) = found.device_memory.map(mebibytes) {
        text += &format!("pinned_memory_limit = \"{memory}M\"\n");
    }
    Ok(text)
}

fn ecs(found: &Found) -> Result<String, String> {
    let mut fields = vec![format!("\"name\": \"{}\"", found.name)];
    match (found.processors, found.device_memory) {
        (Some(cores), _) => {
            // ECS counts 1024 units per processor.
            let units = found.at_once.map(|n| (part(cores, n) * 1024.0).floor());
            fields.extend(units.map(|units| format!("\"cpu\": {units}")));
        }
        (None, Some(memory)) => {
            let cap = found.cap_percent.map_or_else(String::new, |cap| {
                format!(", \"maxComputePercent\": {cap:.0}")
            });
            fields.push(format!(
                "\"resourceRequirements\": [{{\"type\": \"GPU\", \"sharingStrategy\": {{\"nvidiaMps\": {{\"memory\": {}{cap}}}}}}}]",
                mebibytes(memory)
            ));
        }
        (None, None) => {
            return Err("ECS places containers by GPU memory, which is not known yet".to_owned());
        }
    }
    let ram = found
        .ram
        .map(|bytes| format!("\"memory\": {}", mebibytes(bytes)));
    fields.extend(ram);
    // JSON has no comments.
    let said: String = comment(found)
        .replace("# ", "")
        .trim_end()
        .replace('\n', "; ");
    let said = serde_json::to_string(&said).map_err(|e| e.to_string())?;
    fields.push(format!("\"dockerLabels\": {{\"measured\": {said}}}"));
    let fields = fields.join(",\n    ");
    let name = &found.name;
    Ok(format!(
        "{{\"family\": \"{name}\", \"containerDefinitions\": [{{\n    {fields}\n}}]}}\n"
    ))
}

fn slurm(found: &Found) -> String {
    let mut text = String::new();
    match (found.processors, found.at_once) {
        (Some(cores), Some(n)) => {
            text += &format!(
                "#SBATCH --cpus-per-task={}\n",
                part(cores, n).floor().max(1.0)
            );
            if n as f64 > cores {
                text += "# they share processors: the partition needs OverSubscribe=YES\n#SBATCH --oversubscribe\n";
            }
        }
        (None, Some(n)) => text += &format!("#SBATCH --gres=mps:{}\n", (100 / n).max(1)),
        (_, None) => {}
    }
    let ram = found.ram.map(mebibytes);
    text += &ram.map_or_else(String::new, |ram| format!("#SBATCH --mem={ram}M\n"));
    if let Some(n) = found.at_once {
        text +=
            &format!("# for the jobs of an array on one such device: sbatch --array=0-99%{n}\n");
    }
    if let Some(cap) = found.cap_percent {
        text += &format!(
            "# behind the last #SBATCH line; Slurm sets its own share:\nexport {CAP}={cap:.0}\n"
        );
    }
    text
}

fn ray(found: &Found) -> String {
    let mut arguments = Vec::new();
    match (found.processors, found.at_once) {
        (Some(cores), Some(n)) => {
            let each = part(cores, n);
            // Above 1, Ray takes whole numbers only.
            let each = if each > 1.0 { each.floor() } else { each };
            arguments.push(format!("num_cpus={each}"));
        }
        (None, Some(n)) => arguments.push(format!("num_gpus={}", part(1.0, n))),
        (_, None) => {}
    }
    arguments.extend(
        found
            .ram
            .map(|bytes| format!("memory={}", with_margin(bytes))),
    );
    if let Some(cap) = found.cap_percent {
        arguments.push(format!(
            "runtime_env={{\"env_vars\": {{\"{CAP}\": \"{cap:.0}\"}}}}"
        ));
    }
    let name = found.name.replace('-', "_");
    format!(
        "{name} = dict({})  # train.options(**{name}).remote()\n",
        arguments.join(", ")
    )
}

fn flower(found: &Found) -> Result<String, String> {
    let Some(n) = found.at_once else {
        return Err("how many clients at once is not known yet".to_owned());
    };
    let backend = format!("superlink.{}.options.backend", found.name);
    Ok(match found.processors {
        Some(cores) => {
            // Flower counts whole processors, so `init-args` gives Ray as many processors as the clients take. PyTorch
            // starts one thread for each processor of a client.
            let each = part(cores, n).floor().max(1.0);
            format!(
                "[{backend}.client-resources]\nnum-cpus = {each}\n\n[{backend}.init-args]\nnum-cpus = {}\n",
                each * n as f64
            )
        }
        None => format!(
            "# the number of processors was not measured\n[{backend}.client-resources]\nnum-cpus = 1\nnum-gpus = {}\n",
            part(1.0, n)
        ),
    })
}

fn nvflare(found: &Found) -> Result<String, String> {
    let n = found
        .at_once
        .ok_or_else(|| "how many clients at once is not known yet".to_owned())?;
    // With several groups of GPUs the simulator trains one client per group and does not accept threads, so only one
    // group is named.
    let gpu = if found.processors.is_none() {
        " -gpu 0"
    } else {
        ""
    };
    Ok(format!(
        "# the simulator refuses more threads than clients\n{}=\"-t {n}{gpu}\"  # nvflare simulator JOB -n CLIENTS ${0}\n",
        found.name.replace('-', "_")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(processors: Option<f64>, n: usize) -> Found {
        Found {
            template: "train.py {x}".to_owned(),
            name: "train-py-x".to_owned(),
            device: "D".to_owned(),
            processors,
            at_once: Some(n),
            speedup: Some(2.0),
            wants: None,
            cap_percent: processors.is_none().then_some(30.0),
            device_memory: processors.is_none().then_some(10 << 30),
            ram: Some(1 << 30),
            measured: vec!["by a test".to_owned()],
        }
    }

    fn lines(form: Form, found: &Found) -> Vec<String> {
        let text = block(form, found).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("# "));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn a_cap_and_a_peak_with_a_tenth_more_are_limits() {
        let gpu = found(None, 4);
        let memory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=11264M";
        assert_eq!(lines(Form::Mps, &gpu), [&format!("{CAP}=30"), memory]);
        let toml = [
            "active_thread_percentage = \"30\"",
            "pinned_memory_limit = \"11264M\"",
        ];
        assert_eq!(lines(Form::Mps3, &gpu)[1..], toml);
        let ecs = block(Form::Ecs, &gpu).unwrap();
        assert!(
            ecs.contains("{\"memory\": 11264, \"maxComputePercent\": 30}"),
            "{ecs}"
        );
        let k8s = block(Form::K8s, &gpu).unwrap();
        assert!(
            k8s.contains("the plugin caps each at 25 %, where 30 % was measured"),
            "{k8s}"
        );
        assert!(
            k8s.contains("replicas: 4") && k8s.contains("memory: 1127Mi"),
            "{k8s}"
        );
        let ray = "train_py_x = dict(num_gpus=0.25, memory=1181116007, runtime_env=";
        assert!(lines(Form::Ray, &gpu)[0].starts_with(ray));
        assert_eq!(
            lines(Form::Slurm, &gpu)[..2],
            ["#SBATCH --gres=mps:25", "#SBATCH --mem=1127M"]
        );
    }

    #[test]
    fn processors_are_counted_as_each_system_counts_them() {
        let half = found(Some(2.0), 4);
        assert!(lines(Form::Ray, &half)[0].starts_with("train_py_x = dict(num_cpus=0.5, "));
        assert!(
            lines(Form::K8s, &half)
                .iter()
                .any(|line| line.contains("cpu: 500m"))
        );
        let flower = lines(Form::Flower, &half);
        assert_eq!((&*flower[1], &*flower[4]), ("num-cpus = 1", "num-cpus = 4"));
        let slurm = lines(Form::Slurm, &half);
        assert_eq!(
            slurm[..2],
            ["#SBATCH --cpus-per-task=1", "#SBATCH --oversubscribe"]
        );
        // Ray does not accept fractions above 1.
        assert!(lines(Form::Ray, &found(Some(8.0), 3))[0].contains("num_cpus=2,"));
        let refused = block(Form::Mps, &half).unwrap_err();
        assert!(refused.contains("MPS shares GPUs"), "{refused}");
    }

    #[test]
    fn what_a_system_needs_is_not_invented() {
        let mut gpu = found(None, 4);
        (gpu.device_memory, gpu.cap_percent) = (None, None);
        assert!(block(Form::Ecs, &gpu).unwrap_err().contains("GPU memory"));
        assert_eq!(lines(Form::Mps, &gpu), [""; 0]);
        assert!(
            block(Form::Kai, &gpu)
                .unwrap()
                .contains("gpu-fraction: \"0.25\"")
        );
        gpu.at_once = None;
        assert!(block(Form::Kai, &gpu).is_err());
        assert!(block(Form::Flower, &gpu).is_err());
        assert!(block(Form::Nvflare, &gpu).is_err());
    }

    #[test]
    fn a_template_stays_in_its_comment() {
        let mut gpu = found(None, 4);
        gpu.template = "sh -c 'a\nb \"c\"'".to_owned();
        assert!(
            block(Form::Mps, &gpu)
                .unwrap()
                .lines()
                .skip(1)
                .all(|line| !line.starts_with('b'))
        );
        assert!(block(Form::Ecs, &gpu).unwrap().contains("\\\"c\\\""));
    }
}
