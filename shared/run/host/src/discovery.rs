//! Finds the GPUs and whether MPS can run on them, with CUDA and NVML loaded at run time.
//!
//! CUDA reports the resources that a process can use (above all the number of SMs); NVML adds the driver's version, MIG
//! and the compute mode. Nothing here creates a CUDA context, and nothing changes a setting.

use cudarc::driver::{result, sys};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;
use units::Bytes;

use jobs::mps;

/// A GPU as seen by a process on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Stable name: `GPU-` and 32 hexadecimal digits, as in `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Number of streaming multiprocessors.
    pub sms: u32,
    /// Device memory.
    pub memory: Bytes,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Highest CUDA version of the driver, major and minor.
    pub cuda_version: (u32, u32),
    /// The driver's version, where NVML reports it.
    pub driver: Option<String>,
    /// Whether tasks can share it under MPS.
    pub mps: MpsSupport,
    /// The reason why NVML cannot report the two obstacles to sharing, MIG and the compute mode `PROHIBITED`. Such a
    /// GPU counts as shareable, since CUDA sees it, and the reason is reported.
    pub unverified: Option<String>,
}

/// Whether a GPU can be shared under MPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpsSupport {
    /// MPS can share it.
    Available {
        /// Maximum number of clients at a time.
        client_limit: usize,
    },
    /// MPS cannot share it.
    Unavailable {
        /// The reason, and what to do.
        reason: String,
    },
}

/// A GPU as CUDA describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CudaFacts {
    uuid: String,
    name: String,
    sms: u32,
    memory: Bytes,
    compute_capability: (u32, u32),
}

/// Additional facts from NVML.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NvmlFacts {
    mig: bool,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shared,
    Prohibited,
}

/// There is no driver, it sees no GPU, or MPS cannot share any of them.
#[derive(Debug, thiserror::Error)]
#[error("no usable GPU: {reason}")]
pub struct NoGpu {
    /// The reason.
    pub reason: String,
}

/// Finds the GPUs of this machine.
///
/// # Errors
/// [`NoGpu`] with the reason if CUDA cannot be loaded, is incomplete, does not
/// start or sees no GPU.
pub fn discover() -> Result<Vec<Gpu>, NoGpu> {
    let version = driver_version()?;
    let gpus = cuda_facts()?;
    let nvml = Nvml::init();
    let driver = nvml.as_ref().ok().and_then(|n| n.sys_driver_version().ok());
    let control = mps::find_control();
    Ok(gpus
        .into_iter()
        .map(|gpu| {
            let nvml = nvml.as_ref().map_err(ToString::to_string);
            let facts = nvml.and_then(|n| nvml_facts(n, &gpu.uuid).map_err(|e| e.to_string()));
            let mps = mps_support(&gpu, facts.as_ref().ok(), version, control.is_some());
            Gpu {
                uuid: gpu.uuid,
                name: gpu.name,
                sms: gpu.sms,
                memory: gpu.memory,
                compute_capability: gpu.compute_capability,
                cuda_version: version,
                driver: driver.clone(),
                mps,
                unverified: facts.err().map(|reason| {
                    format!("NVML does not say whether MIG or the compute mode forbids sharing: {reason}")
                }),
            }
        })
        .collect())
}

/// At least `least` GPUs of this machine that tasks can share under MPS: those with the given UUIDs in this order, or
/// all if `uuids` is empty.
///
/// # Errors
/// [`NoGpu`] as for [`discover`], or with the reason for each GPU that cannot be shared.
pub fn shareable(uuids: &[String], least: usize) -> Result<Vec<Gpu>, NoGpu> {
    select(discover()?, uuids, least).map_err(no_driver)
}

/// Like [`shareable`], for the GPUs `found`; the error is a message.
fn select(found: Vec<Gpu>, uuids: &[String], least: usize) -> Result<Vec<Gpu>, String> {
    if let Some(uuid) = uuids.iter().find(|u| found.iter().all(|g| g.uuid != **u)) {
        let known: Vec<&str> = found.iter().map(|g| g.uuid.as_str()).collect();
        return Err(format!(
            "CUDA sees no GPU {uuid:?}, but {} (CUDA_VISIBLE_DEVICES may hide others)",
            known.join(", ")
        ));
    }
    let (mut gpus, mut refused) = (Vec::new(), Vec::new());
    for gpu in found {
        let place = uuids.iter().position(|uuid| *uuid == gpu.uuid);
        match &gpu.mps {
            _ if place.is_none() && !uuids.is_empty() => {}
            MpsSupport::Available { .. } => gpus.push((place, gpu)),
            MpsSupport::Unavailable { reason } => {
                refused.push(format!("{} {}: {reason}", gpu.name, gpu.uuid));
            }
        }
    }
    // All named GPUs must exist.
    let least = least.max(uuids.len());
    if gpus.len() < least {
        let others = match refused.is_empty() {
            true => "CUDA sees no other: CUDA_VISIBLE_DEVICES may hide some".to_owned(),
            false => refused.join("; "),
        };
        let count = gpus.len();
        return Err(format!("MPS can share {count} of {least} GPUs ({others})"));
    }
    gpus.sort_by_key(|(place, _)| *place);
    Ok(gpus.into_iter().map(|(_, gpu)| gpu).collect())
}

/// A process that computes on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computing {
    /// UUID of the GPU.
    pub gpu: String,
    /// The process.
    pub pid: u32,
}

/// The processes of all users that compute on some GPUs, according to NVML.
///
/// # Errors
/// The reason why NVML does not report them.
pub fn computing(gpus: &[Gpu]) -> Result<Vec<Computing>, String> {
    let nvml = Nvml::init().map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for gpu in gpus {
        let device = nvml.device_by_uuid(gpu.uuid.as_str());
        let processes = device
            .and_then(|device| device.running_compute_processes())
            .map_err(|error| error.to_string())?;
        all.extend(processes.into_iter().map(|process| Computing {
            gpu: gpu.uuid.clone(),
            pid: process.pid,
        }));
    }
    Ok(all)
}

/// Whether the contexts of this process are clients of MPS, according to CUDA for the first GPU that this process sees
/// (`CU_DEVICE_ATTRIBUTE_MPS_ENABLED`). No context is created.
///
/// # Errors
/// [`NoGpu`] as [`discover`].
#[expect(
    unsafe_code,
    reason = "the CUDA driver is a C library loaded at run time"
)]
pub fn is_mps_client() -> Result<bool, NoGpu> {
    use sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MPS_ENABLED;
    driver_version()?;
    let failed = |e: result::DriverError| no_driver(e.to_string());
    let device = result::device::get(0).map_err(failed)?;
    // SAFETY: `device` was returned by CUDA just now.
    let enabled = unsafe { result::device::get_attribute(device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED) };
    enabled.map(|value| value == 1).map_err(failed)
}

/// Maximum number of MPS clients of one GPU: 48 up to CUDA 13.0, 60 after (NVIDIA MPS documentation).
#[must_use]
pub fn client_limit(cuda_version: (u32, u32)) -> usize {
    if cuda_version > (13, 0) { 60 } else { 48 }
}

fn mps_support(
    gpu: &CudaFacts,
    nvml: Option<&NvmlFacts>,
    version: (u32, u32),
    has_control: bool,
) -> MpsSupport {
    let reason = if !has_control {
        Some(format!(
            "{} is not on PATH; it comes with the NVIDIA driver (package nvidia-compute-utils)",
            mps::CONTROL
        ))
    } else if gpu.compute_capability < (7, 0) {
        Some("shares of SMs need a Volta GPU (compute capability 7.0) or newer".to_owned())
    } else if nvml.is_some_and(|n| n.mig) {
        Some("the GPU is split by MIG, which this tool neither uses nor changes".to_owned())
    } else if nvml.is_some_and(|n| n.mode == Mode::Prohibited) {
        Some("the GPU's compute mode is PROHIBITED, which this tool never changes".to_owned())
    } else {
        None
    };
    match reason {
        Some(reason) => MpsSupport::Unavailable { reason },
        None => MpsSupport::Available {
            client_limit: client_limit(version),
        },
    }
}

fn no_driver(reason: impl Into<String>) -> NoGpu {
    NoGpu {
        reason: reason.into(),
    }
}

/// Makes sure that CUDA can be called at all (`cudarc` panics when a symbol is missing), starts
/// it and returns its version.
#[expect(
    unsafe_code,
    reason = "the CUDA driver is a C library loaded at run time"
)]
fn driver_version() -> Result<(u32, u32), NoGpu> {
    // SAFETY: loading libcuda runs its initialisers, which NVIDIA supports in any process.
    if !unsafe { sys::is_culib_present() } {
        return Err(no_driver(
            "the CUDA driver library (libcuda.so.1) cannot be loaded; install the NVIDIA driver",
        ));
    }
    const NEEDED: [&[u8]; 8] = [
        b"cuInit\0",
        b"cuDriverGetVersion\0",
        b"cuDeviceGetCount\0",
        b"cuDeviceGet\0",
        b"cuDeviceGetName\0",
        b"cuDeviceGetUuid\0",
        b"cuDeviceGetAttribute\0",
        b"cuDeviceTotalMem_v2\0",
    ];
    for symbol in NEEDED {
        // SAFETY: the symbol is only looked up, never called through this type.
        if unsafe { sys::culib().get::<unsafe extern "C" fn()>(symbol) }.is_err() {
            let name = String::from_utf8_lossy(&symbol[..symbol.len() - 1]);
            return Err(no_driver(format!(
                "the CUDA driver library has no {name}; it is too old"
            )));
        }
    }
    result::init().map_err(|e| no_driver(format!("CUDA does not start: {e}")))?;
    let mut version = 0;
    // SAFETY: `version` is valid for the one integer that is written.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(|e| no_driver(format!("CUDA does not report its version: {e}")))?;
    let version = u32::try_from(version).unwrap_or(0);
    Ok((version / 1000, version % 1000 / 10))
}

fn cuda_facts() -> Result<Vec<CudaFacts>, NoGpu> {
    let count = result::device::get_count().map_err(|e| no_driver(e.to_string()))?;
    if count == 0 {
        return Err(no_driver("CUDA sees no GPU"));
    }
    (0..count)
        .map(|ordinal| {
            facts_of(ordinal).map_err(|e| no_driver(format!("GPU {ordinal} does not answer: {e}")))
        })
        .collect()
}

#[expect(
    unsafe_code,
    reason = "the CUDA driver is a C library loaded at run time"
)]
fn facts_of(ordinal: i32) -> Result<CudaFacts, result::DriverError> {
    use sys::CUdevice_attribute_enum as A;
    let device = result::device::get(ordinal)?;
    // SAFETY: `device` was returned by CUDA just now.
    let attribute = |a| {
        unsafe { result::device::get_attribute(device, a) }.map(|v| u32::try_from(v).unwrap_or(0))
    };
    // SAFETY: as above.
    let memory = unsafe { result::device::total_mem(device) }?;
    Ok(CudaFacts {
        uuid: uuid_text(
            &result::device::get_uuid(device)?
                .bytes
                .map(i8::cast_unsigned),
        ),
        name: result::device::get_name(device)?,
        sms: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory: Bytes::new(memory as u64).unwrap_or_default(),
        compute_capability: (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
    })
}

/// A UUID in the form of NVML, `nvidia-smi` and `CUDA_VISIBLE_DEVICES`.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = "GPU-".to_owned();
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// NVML's facts about the GPU with this UUID.
fn nvml_facts(nvml: &Nvml, uuid: &str) -> Result<NvmlFacts, NvmlError> {
    let device = nvml.device_by_uuid(uuid)?;
    let mig = match device.mig_mode() {
        Ok(mode) => mode.current != 0,
        // The reply of GPUs that do not support MIG.
        Err(NvmlError::NotSupported) => false,
        Err(error) => return Err(error),
    };
    let mode = match device.compute_mode()? {
        ComputeMode::Prohibited => Mode::Prohibited,
        _ => Mode::Shared,
    };
    Ok(NvmlFacts { mig, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> CudaFacts {
        CudaFacts {
            uuid: uuid_text(&[0xab; 16]),
            name: "NVIDIA TITAN V".into(),
            sms: 80,
            memory: Bytes::new(12 << 30).unwrap(),
            compute_capability: (7, 0),
        }
    }

    fn nvml(mig: bool, mode: Mode) -> NvmlFacts {
        NvmlFacts { mig, mode }
    }

    fn reason(support: MpsSupport) -> String {
        match support {
            MpsSupport::Unavailable { reason } => reason,
            MpsSupport::Available { .. } => String::new(),
        }
    }

    #[test]
    fn uuid_has_the_form_of_nvidia_smi() {
        assert_eq!(gpu().uuid, "GPU-abababab-abab-abab-abab-abababababab");
    }

    #[test]
    fn a_volta_gpu_with_the_control_program_can_share() {
        let shared = nvml(false, Mode::Shared);
        for nvml in [None, Some(&shared)] {
            let got = mps_support(&gpu(), nvml, (12, 6), true);
            assert_eq!(got, MpsSupport::Available { client_limit: 48 });
        }
        let got = mps_support(&gpu(), None, (13, 1), true);
        assert_eq!(got, MpsSupport::Available { client_limit: 60 });
    }

    #[test]
    fn each_obstacle_is_named() {
        let why = |g: &CudaFacts, n: &NvmlFacts, control| {
            reason(mps_support(g, Some(n), (12, 6), control))
        };
        let fine = nvml(false, Mode::Shared);
        assert!(why(&gpu(), &fine, false).contains("PATH"));
        assert!(why(&gpu(), &nvml(true, Mode::Shared), true).contains("MIG"));
        assert!(why(&gpu(), &nvml(false, Mode::Prohibited), true).contains("PROHIBITED"));
        let pascal = CudaFacts {
            compute_capability: (6, 1),
            ..gpu()
        };
        assert!(why(&pascal, &fine, true).contains("Volta"));
    }

    fn seen(uuid: &str, mps: MpsSupport) -> Gpu {
        let facts = gpu();
        Gpu {
            uuid: uuid.to_owned(),
            name: facts.name,
            sms: facts.sms,
            memory: facts.memory,
            compute_capability: facts.compute_capability,
            cuda_version: (12, 6),
            driver: None,
            mps,
            unverified: None,
        }
    }

    #[test]
    fn a_gpu_that_is_asked_for_and_cannot_be_shared_is_told_with_its_reason() {
        let split = || MpsSupport::Unavailable {
            reason: "the GPU is split by MIG".to_owned(),
        };
        let fine = || MpsSupport::Available { client_limit: 48 };
        let found = || vec![seen("a", split()), seen("b", fine()), seen("c", fine())];
        let names = |uuids: &[&str], least| {
            let uuids: Vec<String> = uuids.iter().map(|&u| u.to_owned()).collect();
            let gpus = select(found(), &uuids, least)?;
            Ok::<_, String>(gpus.into_iter().map(|g| g.uuid).collect::<Vec<_>>())
        };
        assert_eq!(names(&[], 1).unwrap(), ["b", "c"]);
        assert_eq!(names(&["c", "b"], 1).unwrap(), ["c", "b"]);
        for (uuids, least) in [(&["b", "a"][..], 1), (&[], 3)] {
            let error = names(uuids, least).unwrap_err();
            assert!(error.contains("MIG") && error.contains("of "), "{error}");
        }
        let error = names(&["d"], 1).unwrap_err();
        assert!(
            error.contains("\"d\"") && error.contains("a, b, c"),
            "{error}"
        );
        let error = names(&["b"], 2).unwrap_err();
        assert!(
            error.contains("1 of 2") && error.contains("VISIBLE"),
            "{error}"
        );
    }

    #[test]
    fn without_a_driver_there_is_a_reason_and_no_panic() {
        match discover() {
            Ok(gpus) => assert!(gpus.iter().all(|g| g.sms > 0 && g.uuid.starts_with("GPU-"))),
            Err(e) => assert!(e.to_string().contains("no usable GPU"), "{e}"),
        }
    }
}
