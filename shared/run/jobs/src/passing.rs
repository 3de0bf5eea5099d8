use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Variables that jobs get from this process, in addition to those of the worker protocol and of the workload. A name
/// that ends in `*` is a prefix pattern.
pub const PASSED_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CUDA_*",
    "NVIDIA_*",
    "NCCL_*",
    "OMP_*",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "PYTHON*",
    "PYTORCH_*",
    "TORCH_*",
    "HF_*",
    "VIRTUAL_ENV",
    "CONDA_*",
    "RUST_BACKTRACE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Variables that a training may need: they configure experiment trackers, federations, queues, launchers of several
/// processes, data stores and frameworks. The tools report only these when they do not pass them on. A login
/// environment has dozens of other variables that no training reads, and a script with a hundred launches would repeat
/// them a hundred times.
const MISSED: &[&str] = &[
    // Trackers.
    "WANDB_*",
    "MLFLOW_*",
    "COMET_*",
    "NEPTUNE_*",
    "CLEARML_*",
    "AIM_*",
    "TENSORBOARD_*",
    // Federations.
    "NVFLARE_*",
    "NVFL_*",
    "FLWR_*",
    "FEDML_*",
    "OPENFL_*",
    // Queues.
    "SLURM_*",
    "SRUN_*",
    "PBS_*",
    "LSB_*",
    "SGE_*",
    "RAY_*",
    "KUBERNETES_*",
    // Several processes.
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "OMPI_*",
    "PMI_*",
    "PMIX_*",
    "GLOO_*",
    "UCX_*",
    "FI_*",
    // Data and secrets.
    "AWS_*",
    "AZURE_*",
    "GOOGLE_*",
    "GCP_*",
    "S3_*",
    "KAGGLE_*",
    "DATA_*",
    "DATASET_*",
    "MODEL_*",
    "CHECKPOINT_*",
    // Frameworks.
    "TF_*",
    "XLA_*",
    "JAX_*",
    "KERAS_*",
    "TRITON_*",
    "TRANSFORMERS_*",
    "TOKENIZERS_*",
    "ACCELERATE_*",
    "DS_*",
    "DEEPSPEED_*",
    "LIGHTNING_*",
    "PL_*",
    "NUMEXPR_*",
    "NUMBA_*",
    "VECLIB_*",
];

/// Prefix of the variables that the tools themselves give to jobs. A job would mistake those of an outer launch for its
/// own (for example `MT_SAMPLES`, although it should run until told to stop), so no pattern passes them on.
const OWN: &str = "MT_";

/// Maximum number of names in a note; the rest is only counted.
const LISTED: usize = 8;

/// Variables that jobs get in addition to [`PASSED_VARIABLES`]: variables of this process, and explicitly set ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passing {
    keep: Vec<String>,
    set: BTreeMap<String, String>,
}

impl Passing {
    /// `keep`: names of variables to pass on, or prefixes followed by `*`; `set`: `NAME=VALUE` for every job, which
    /// overrides the workload.
    ///
    /// # Errors
    /// One line for each invalid entry, with the error and the correction.
    pub fn new(keep: &[String], set: &[String]) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        for pattern in keep {
            let prefix = pattern.strip_suffix('*').unwrap_or(pattern);
            if pattern.is_empty() || prefix.contains(['*', '=']) {
                faults.push(format!(
                    "--keep-env {pattern}: give a name, or its beginning with one * after it \
                     (SLURM_*)"
                ));
            } else if prefix.starts_with(OWN) {
                faults.push(format!(
                    "--keep-env {pattern}: {OWN}* is set by this launch; give other names"
                ));
            }
        }
        let mut variables = BTreeMap::new();
        for text in set {
            match text.split_once('=').filter(|(name, _)| !name.is_empty()) {
                None => faults.push(format!("--env {text}: give NAME=VALUE")),
                Some((name, _)) if name.starts_with(OWN) || name.starts_with("CUDA_MPS_") => {
                    faults.push(format!(
                        "--env {name}: the plan decides {OWN}* and CUDA_MPS_*; give other names"
                    ));
                }
                Some((name, value)) => {
                    variables.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            keep: keep.to_vec(),
            set: variables,
        })
    }

    /// Passes on everything except the tools' own variables: a program that starts jobs elsewhere finds its
    /// allocation in this environment (`srun` by `SLURM_JOB_ID`, without which it would wait for another allocation;
    /// `ssh` by `SSH_AUTH_SOCK`).
    #[must_use]
    pub fn everything(self) -> Self {
        Self {
            keep: vec!["*".to_owned()],
            ..self
        }
    }

    /// Variables that are set for every job.
    #[must_use]
    pub const fn set(&self) -> &BTreeMap<String, String> {
        &self.set
    }

    /// Whether a variable of this process is passed on.
    fn keeps(&self, name: &str) -> bool {
        let kept = || self.keep.iter().any(|p| matches(p, name));
        PASSED_VARIABLES.iter().any(|p| matches(p, name)) || (!name.starts_with(OWN) && kept())
    }

    /// The variables of this process that jobs get. `PATH` is extended by the folder of this program, so that
    /// `mt-worker` is found there.
    #[must_use]
    pub fn base_environment(&self) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<OsString, OsString> = std::env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|name| self.keeps(name)))
            .collect();
        let own = std::env::current_exe().ok();
        if let (Some(path), Some(own)) = (all.get_mut(OsStr::new("PATH")), own) {
            let folders = std::env::split_paths(path).chain(own.parent().map(Path::to_owned));
            // A folder with a colon in its name cannot be part of `PATH`, so it is left out.
            if let Ok(longer) = std::env::join_paths(folders) {
                *path = longer;
            }
        }
        all
    }

    /// A message about variables of this process that jobs may need but do not get; `None` if there are none.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        self.left_out_of(names)
    }

    fn left_out_of(&self, names: impl Iterator<Item = String>) -> Option<String> {
        let missed = |name: &String| {
            let known = MISSED.iter().any(|p| matches(p, name));
            known && !self.keeps(name) && !self.set.contains_key(name)
        };
        let mut families: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in names.filter(missed) {
            let family = name.split_inclusive('_').next().unwrap_or(&name);
            families.entry(family.to_owned()).or_default().push(name);
        }
        let words: Vec<String> = families
            .into_iter()
            .map(|(family, names)| match names.as_slice() {
                [name] => name.clone(),
                names => format!("{family}* ({})", names.len()),
            })
            .collect();
        let more = match words.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let listed: Vec<&str> = words.iter().take(LISTED).map(String::as_str).collect();
        (!words.is_empty()).then(|| {
            format!(
                "not passed on to the jobs: {}{more}; --keep-env PATTERN passes on what they need",
                listed.join(", ")
            )
        })
    }
}

/// Whether a pattern equals the name, or is a prefix of it followed by `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&w| w.to_owned()).collect()
    }

    #[test]
    fn what_is_left_out_is_told_by_family_and_what_is_kept_is_not() {
        let ours = [
            "PATH",
            "PWD",
            "MY_OWN_PROMPT",
            "WANDB_MODE",
            "SLURM_JOB_ID",
            "SLURM_NTASKS",
            "MT_TASK",
        ];
        let told = |keep: &[&str]| {
            let passing = Passing::new(&strings(keep), &[]).unwrap();
            passing.left_out_of(strings(&ours).into_iter())
        };
        let text = told(&[]).unwrap();
        assert!(text.contains("jobs: SLURM_* (2), WANDB_MODE;"), "{text}");
        let text = told(&["SLURM_*"]).unwrap();
        assert!(text.contains("jobs: WANDB_MODE;"), "{text}");
        assert_eq!(told(&["*"]), None);
    }

    #[test]
    fn a_launch_around_this_one_does_not_speak_for_it() {
        let passing = Passing::new(&strings(&["*"]), &[]).unwrap();
        assert!(passing.keeps("WANDB_MODE"));
        assert!(!passing.keeps("MT_SAMPLES"));
    }

    #[test]
    fn every_wrong_option_is_named() {
        let faults = Passing::new(
            &strings(&["", "A*B", "MT_X"]),
            &strings(&["A", "=1", "MT_TASK=a", "CUDA_MPS_PIPE_DIRECTORY=/", "B=c=d"]),
        )
        .unwrap_err();
        assert_eq!(faults.len(), 7, "{faults:?}");
        let right = Passing::new(&[], &strings(&["B=c=d"])).unwrap();
        assert_eq!(right.set()["B"], "c=d");
    }
}
