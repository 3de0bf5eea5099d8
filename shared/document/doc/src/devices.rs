use crate::wire::{DeviceList, ListedDevice, Wire as _};
use crate::{Checker, Code, Document, Provenance};

impl DeviceList {
    /// Makes a list of these devices, with the names of the models.
    #[must_use]
    pub fn new(
        devices: Vec<ListedDevice>,
        models: Vec<String>,
        provenance: Vec<Provenance>,
    ) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            devices,
            models,
            provenance,
        }
    }
}

/// The wire form is the document itself: it has no quantity that could be invalid.
impl Document for DeviceList {
    type Wire = Self;

    fn from_wire(wire: &Self, c: &mut Checker) -> Option<Self> {
        c.field("devices", |c| {
            for (i, device) in wire.devices.iter().enumerate() {
                if device.usable == device.reason.is_some() {
                    c.index(i, |c| {
                        let advice = "a device is usable, or has a reason why not";
                        c.fault(Code::Conflict, "`usable` and `reason` disagree", advice);
                    });
                }
            }
        });
        c.is_clean().then(|| wire.clone())
    }

    fn to_wire(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Documents, Frames, write_line};

    fn read(text: &str) -> Result<DeviceList, String> {
        Documents::new(Frames::new(text.as_bytes(), "test"))
            .next()
            .unwrap()
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_list_goes_and_comes_back() {
        let text = r#"{"schema":"mt.devices/1","devices":[{"kind":"cpu","name":"processor","usable":true,"units":2},{"kind":"cuda","name":"cuda","usable":false,"reason":"no driver"}],"models":["vgg16"]}"#;
        let mut out = Vec::new();
        write_line(&mut out, &read(text).unwrap()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().trim_end(), text);
    }

    #[test]
    fn a_device_without_a_reason_must_be_usable() {
        let text = r#"{"schema":"mt.devices/1","devices":[{"kind":"cpu","name":"processor","usable":false}]}"#;
        assert!(read(text).unwrap_err().contains("devices[0]"));
    }
}
