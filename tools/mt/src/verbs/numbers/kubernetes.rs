//! Pods and jobs of Kubernetes.

use super::amount::{CAP, mebibytes, only_gpus, part};
use super::found::Found;

/// The environment of a container; empty without a cap.
fn environment(found: &Found, indent: &str) -> String {
    let line = |cap| format!("{indent}env:\n{indent}- {{name: {CAP}, value: \"{cap:.0}\"}}\n");
    found.cap_percent.map_or_else(String::new, line)
}

/// A pod of the KAI scheduler.
pub(super) fn kai(found: &Found) -> Result<String, String> {
    only_gpus(found, "KAI")?;
    // A pod takes either a fraction or a memory size. The fraction is preferred, because it also
    // limits how many pods share a GPU.
    let annotation = match (found.at_once, found.device_memory) {
        (Some(n), _) => format!(
            "gpu-fraction: \"{}\"",
            (part(1.0, n) * 100.0).floor() / 100.0
        ),
        (None, Some(memory)) => format!("gpu-memory: \"{}\"", mebibytes(memory)),
        (None, None) => {
            return Err("neither a number at once nor GPU memory is known yet".to_owned());
        }
    };
    let ram = found.ram.map(mebibytes).map_or_else(String::new, |ram| {
        format!("    resources: {{limits: {{memory: {ram}Mi}}}}\n")
    });
    Ok(format!(
        "# add the label kai.scheduler/queue, image and command\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\n  \
         annotations:\n    {annotation}\nspec:\n  schedulerName: kai-scheduler\n  containers:\n  - name: train\n{}{ram}",
        found.name,
        environment(found, "    ")
    ))
}

/// A job, and the configuration of NVIDIA's device plugin for a GPU.
pub(super) fn k8s(found: &Found) -> String {
    let mut requests = Vec::new();
    let mut limits = Vec::new();
    if let (Some(cores), Some(n)) = (found.processors, found.at_once) {
        requests.push(format!("cpu: {}m", (part(cores, n) * 1000.0).floor()));
    }
    if let Some(ram) = found.ram.map(mebibytes) {
        requests.push(format!("memory: {ram}Mi"));
        limits.push(format!("memory: {ram}Mi"));
    }
    if found.processors.is_none() {
        limits.push("nvidia.com/gpu: 1".to_owned());
    }
    let part_of = |name: &str, all: &[String]| match all.is_empty() {
        true => String::new(),
        false => format!("          {name}: {{{}}}\n", all.join(", ")),
    };
    let lists = part_of("requests", &requests) + &part_of("limits", &limits);
    let resources = match lists.is_empty() {
        true => lists,
        false => format!("        resources:\n{lists}"),
    };
    let parallelism = found
        .at_once
        .map_or_else(String::new, |n| format!("  parallelism: {n}\n"));
    let job = format!(
        "# add image, command and completions\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {}\nspec:\n\
         {parallelism}  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - name: train\n{}{resources}",
        found.name,
        environment(found, "        ")
    );
    match (found.processors, found.at_once) {
        (None, Some(n)) => job + &plugin(found, n),
        _ => job,
    }
}

/// The configuration of NVIDIA's device plugin that lets `n` pods share a GPU under MPS.
fn plugin(found: &Found, n: usize) -> String {
    let part = 100 / n.max(1);
    let cap = found.cap_percent.unwrap_or(100.0);
    let beyond = match cap > part as f64 {
        true => format!("# the plugin caps each at {part} %, where {cap:.0} % was measured\n"),
        false => String::new(),
    };
    format!(
        "---\n# configuration of nvidia-device-plugin\n{beyond}apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}-mps\n\
         data:\n  config.yaml: |\n    version: v1\n    sharing:\n      mps:\n        resources:\n        \
         - {{name: nvidia.com/gpu, replicas: {n}}}\n",
        found.name
    )
}
