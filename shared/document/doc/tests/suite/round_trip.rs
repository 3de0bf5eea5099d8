//! What is written is read back exactly.

use doc::wire::{self, Wire};
use doc::*;
use proptest::prelude::*;

use crate::{generate, schema};

/// Writes, reads, validates and writes again; each step must keep everything.
fn round_trip<D>(wire: &D::Wire) -> Result<(), TestCaseError>
where
    D: Document + std::fmt::Debug + PartialEq,
    D::Wire: PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(wire).unwrap();
    prop_assert_eq!(&serde_json::from_str::<D::Wire>(&text).unwrap(), wire);
    let frames = Frames::new(text.as_bytes(), "t");
    let read: Vec<_> = Documents::<_, D>::new(frames).collect();
    prop_assert_eq!(read.len(), 1);
    let document = match &read[0] {
        Ok(document) => document,
        Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
    };
    prop_assert_eq!(&document.to_wire(), wire);
    let mut line = Vec::new();
    write_line(&mut line, document).unwrap();
    prop_assert_eq!(String::from_utf8(line).unwrap(), format!("{text}\n"));
    let mut pretty = Vec::new();
    write_pretty(&mut pretty, document).unwrap();
    let again = Documents::<_, D>::new(Frames::new(&pretty[..], "t"));
    let again: Vec<D> = again.map(|d| d.unwrap()).collect();
    prop_assert_eq!(&again[0], document);
    Ok(())
}

/// The generated JSON Schema agrees with what is read.
fn fits_schema<W: Wire>(wire: &W) -> Result<(), TestCaseError> {
    let record = W::RECORD.map_or(String::new(), |r| format!(".{r}"));
    let name = format!("{}{record}.schema.json", W::SCHEMA.replace('/', "."));
    let schemas = schemas();
    let (_, text) = schemas.iter().find(|(n, _)| *n == name).unwrap();
    let schema: serde_json::Value = serde_json::from_str(text).unwrap();
    let value = serde_json::to_value(wire).unwrap();
    prop_assert!(schema::fits(&schema, &schema, &value));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_number_survives_exactly(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(serde_json::from_str::<f64>(&text).unwrap().to_bits(), bits);
    }

    #[test]
    fn workloads(wire in generate::workload()) {
        round_trip::<Workload>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn headers(wire in generate::header()) {
        round_trip::<Header>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn samples(wire in generate::sample()) {
        round_trip::<Sample>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn failures(wire in generate::failure()) {
        round_trip::<Failure>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn ends(wire in generate::end()) {
        round_trip::<ProfileEnd>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn models(wire in generate::model()) {
        round_trip::<Model>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn plans(wire in generate::plan()) {
        round_trip::<Plan>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn infeasible_plans(wire in generate::infeasible_plan()) {
        round_trip::<Plan>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn timelines(wire in generate::timeline()) {
        round_trip::<Timeline>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn events(wire in generate::event()) {
        round_trip::<RunEvent>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn clusters(wire in generate::cluster()) {
        round_trip::<Cluster>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn schedules(wire in generate::schedule()) {
        round_trip::<Schedule>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn queue_events(wire in generate::queue_event()) {
        round_trip::<QueueEvent>(&wire)?;
        fits_schema(&wire)?;
        // A live system may leave the schema out: the line is written as it was.
        let mut bare = wire;
        bare.schema = None;
        let bytes = serde_json::to_vec(&bare).unwrap();
        let frame = Frame { bytes, source_name: "t".to_owned(), line: 1 };
        prop_assert_eq!(QueueEvent::read(&frame).unwrap().to_wire(), bare);
    }

    #[test]
    fn queue_starts(wire in generate::queue_start()) {
        round_trip::<QueueStart>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn a_stream_keeps_number_and_order(wires in prop::collection::vec(generate::workload(), 1..5), gap in "[ \n\t]{0,3}") {
        let texts: Vec<String> = wires.iter().map(|w| serde_json::to_string(w).unwrap()).collect();
        let stream = texts.join(&gap);
        let read = Documents::<_, Workload>::new(Frames::new(stream.as_bytes(), "t"));
        let back: Vec<wire::Workload> = read.map(|d| d.unwrap().to_wire()).collect();
        prop_assert_eq!(back, wires);
    }
}

#[test]
fn numbers_that_json_cannot_hold_are_refused() {
    for text in ["NaN", "Infinity", "-Infinity", "null", "1e400", "\"1\""] {
        let line = format!(
            r#"{{"schema":"mt.profile/1","record":"end","measured":1,"failed":0,"cost_s":{text},"stopped":"complete"}}"#
        );
        let mut read = Documents::<_, ProfileEnd>::new(Frames::new(line.as_bytes(), "t"));
        assert!(read.next().unwrap().is_err(), "{text}");
        assert!(read.next().is_none(), "{text}");
    }
}
