use crate::wire::{self, ListedDevice, Wire as _};
use crate::{Checker, Code, Document, Provenance};

/// The devices of a machine; one that is not usable has a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceList {
    /// GPUs first, then the processor, then what the simulator knows.
    pub devices: Vec<ListedDevice>,
    /// Models that a task can name.
    pub models: Vec<String>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

impl Document for DeviceList {
    type Wire = wire::DeviceList;

    fn from_wire(wire: &wire::DeviceList, c: &mut Checker) -> Option<Self> {
        let mut sound = true;
        for (i, device) in wire.devices.iter().enumerate() {
            if device.usable == device.reason.is_some() {
                sound = false;
                c.field("devices", |c| {
                    c.index(i, |c| {
                        let advice = "a device is usable, or has a reason why not";
                        c.fault(Code::Conflict, "`usable` and `reason` disagree", advice);
                    });
                });
            }
        }
        sound.then(|| Self {
            devices: wire.devices.clone(),
            models: wire.models.clone(),
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::DeviceList {
        wire::DeviceList {
            schema: wire::DeviceList::SCHEMA.to_owned(),
            devices: self.devices.clone(),
            models: self.models.clone(),
            provenance: self.provenance.clone(),
        }
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
