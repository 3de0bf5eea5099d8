use std::io::{self, BufRead, Write};

use crate::read::empty;
use crate::wire::{GpuDescription, Wire, wire_form};
use crate::workload::validate::gpu_description;
use crate::write::spread;
use crate::{Checker, Frames, ReadError};

wire_form!(GpuDescription, "mt.gpu/1");

/// Reads the parameters of a GPU from a separate file: the object that a workload has as
/// `device.gpu_description`.
///
/// # Errors
/// [`ReadError`] with every fault.
pub fn read_gpu(input: impl BufRead, source_name: &str) -> Result<GpuDescription, ReadError> {
    let frame = match Frames::new(input, source_name).next() {
        None => return Err(empty(source_name)),
        Some(frame) => frame?,
    };
    let wire = frame.wire::<GpuDescription>()?;
    let mut checker = Checker::default();
    match gpu_description(&wire, &mut checker) {
        Some(gpu) if checker.is_clean() => Ok(gpu),
        _ => Err(frame.faults(checker.into_faults())),
    }
}

/// Writes the parameters of a GPU, for people and for [`read_gpu`].
///
/// # Errors
/// Any error of `out`.
pub fn write_gpu(out: &mut impl Write, gpu: &GpuDescription) -> io::Result<()> {
    out.write_all(&spread(&gpu.line()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"name":"mine","sms":40,"fp32_tflops":7.5,"memory_gb_per_s":300.1}"#;

    fn read(text: &str) -> Result<GpuDescription, String> {
        read_gpu(text.as_bytes(), "gpu.json").map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let gpu = read(GOOD).unwrap();
        let mut text = Vec::new();
        write_gpu(&mut text, &gpu).unwrap();
        assert_eq!(read(std::str::from_utf8(&text).unwrap()), Ok(gpu));
    }

    #[test]
    fn faults_are_named() {
        for (from, to, word) in [
            ("40", "0", "E201 at $.sms"),
            ("7.5", "-1", "E201 at $.fp32_tflops"),
            ("300.1", "\"fast\"", "E109 at $.memory_gb_per_s"),
            ("\"sms\":40,", "", "E108"),
            ("\"sms\"", "\"smz\"", "E107"),
            (GOOD, "", "E101"),
            ("}", "", "E103"),
        ] {
            let error = read(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
