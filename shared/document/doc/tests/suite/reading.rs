//! A reader's response to good and bad input.

use doc::{
    Any, AnyDocuments, Code, Documents, Frames, Measurements, Plan, Profiles, ReadError, Workload,
};

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","tasks":[
 {"id":"a","model":"vgg16","batch_sizes":128,"samples":1000},
 {"id":"b","flops_per_sample":1e9,"bytes_per_sample":3e6,"batch_sizes":[64,32]}]}"#;

fn faults_of(text: &str) -> Vec<(Code, String)> {
    let mut documents = Documents::<_, Workload>::new(Frames::new(text.as_bytes(), "w.json"));
    match documents.next() {
        Some(Err(ReadError::Faults(faults))) => faults
            .faults
            .into_iter()
            .map(|f| (f.code, f.path))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_what_people_write() {
    let mut documents = Documents::<_, Workload>::new(Frames::new(WORKLOAD.as_bytes(), "w"));
    let workload = documents.next().unwrap().unwrap();
    let sizes: Vec<u32> = workload.tasks[1]
        .batch_sizes
        .iter()
        .map(|b| b.get())
        .collect();
    assert_eq!(sizes, [32, 64]);
    assert_eq!(workload.tasks[0].batch_sizes[0].get(), 128);
    assert!(documents.next().is_none());
}

#[test]
fn gpus_are_a_number_or_names() {
    let of = |gpus: &str| {
        format!(
            r#"{{"schema":"mt.workload/1","device":{{"gpus":{gpus}}},"tasks":[
               {{"id":"a","model":"vgg16","batch_sizes":[1]}}]}}"#
        )
    };
    for (gpus, code, path) in [
        ("0", Code::OutOfRange, "$.device.gpus"),
        ("[]", Code::OutOfRange, "$.device.gpus"),
        (r#"[""]"#, Code::OutOfRange, "$.device.gpus[0]"),
        (r#""x""#, Code::WrongType, "$.device.gpus"),
        ("-1", Code::WrongType, "$.device.gpus"),
        ("[1]", Code::WrongType, "$.device.gpus[0]"),
    ] {
        let found = faults_of(&of(gpus));
        assert!(
            found.contains(&(code, path.to_owned())),
            "{gpus}: {found:?}"
        );
    }
    let text = of(r#"["GPU-a","GPU-b"]"#);
    let mut documents = Documents::<_, Workload>::new(Frames::new(text.as_bytes(), "w"));
    let device = documents.next().unwrap().unwrap().device;
    assert_eq!(
        (device.gpus, device.gpu_names),
        (2, vec!["GPU-a".into(), "GPU-b".into()])
    );
}

#[test]
fn reports_every_fault_of_a_document() {
    let text = r#"{"schema":"mt.workload/1","device":{"gpus":["x","x"]},"tasks":[
      {"id":"a b","model":"vgg16","batch_sizes":[0,32,32]},
      {"id":"c","batch_sizes":[],"weight":-1,"samples":0},
      {"id":"c","model":"vgg16","batch_sizes":[1]}]}"#;
    let found = faults_of(text);
    for want in [
        (Code::Duplicate, "$.device.gpus[1]"),
        (Code::OutOfRange, "$.tasks[0].id"),
        (Code::OutOfRange, "$.tasks[0].batch_sizes[0]"),
        (Code::Duplicate, "$.tasks[0].batch_sizes[2]"),
        (Code::NothingToDo, "$.tasks[1].batch_sizes"),
        (Code::OutOfRange, "$.tasks[1].weight"),
        (Code::OutOfRange, "$.tasks[1].samples"),
        (Code::MissingField, "$.tasks[1]"),
        (Code::Duplicate, "$.tasks[2].id"),
    ] {
        assert!(
            found.contains(&(want.0, want.1.to_owned())),
            "{want:?} in {found:?}"
        );
    }
}

#[test]
fn reports_every_wrong_type_and_unknown_field() {
    let text = r#"{"schema":"mt.workload/1","color":"red","tasks":[
      {"id":7,"model":"vgg16","batch_sizes":["x"]},
      {"model":"vgg16","batch_sizes":[1],"sampels":3}]}"#;
    let found = faults_of(text);
    for want in [
        (Code::UnknownField, "$.color"),
        (Code::WrongType, "$.tasks[0].id"),
        (Code::WrongType, "$.tasks[0].batch_sizes[0]"),
        (Code::MissingField, "$.tasks[1]"),
        (Code::UnknownField, "$.tasks[1].sampels"),
    ] {
        assert!(
            found.contains(&(want.0, want.1.to_owned())),
            "{want:?} in {found:?}"
        );
    }
}

#[test]
fn says_what_kind_of_document_it_was_given() {
    assert_eq!(
        faults_of(r#"{"schema":"mt.plan/1"}"#),
        [(Code::WrongSchema, "$.schema".to_owned())]
    );
    assert_eq!(
        faults_of("{}"),
        [(Code::WrongSchema, "$.schema".to_owned())]
    );
    assert_eq!(faults_of(" \n")[0].0, Code::Empty);
    assert_eq!(
        faults_of(r#"{"schema":"mt.workload/1","tasks":NaN}"#)[0].0,
        Code::Syntax
    );
}

#[test]
fn a_hand_written_plan_needs_no_model() {
    let text = r#"{"schema":"mt.plan/1","link":{"down_bps":4e8,"up_bps":4e8},
     "tasks":[{"id":"a","samples":18000,"update_bytes":{"down":30000000,"up":30000000}},
              {"id":"b","samples":6400,"update_bytes":{"down":9000000,"up":9000000}}],
     "rates":[{"active":["a"],"samples_per_s":{"a":1886.5}},
              {"active":["b","a"],"samples_per_s":{"a":1279.1,"b":1027.7}}]}"#;
    let mut plans = Documents::<_, Plan>::new(Frames::new(text.as_bytes(), "p"));
    let plan = plans.next().unwrap().unwrap();
    assert_eq!(plan.rates[1].active, [0, 1]);
    assert!((plan.rates[1].rates[1].get() - 1027.7).abs() < 1e-12);
}

fn profile(samples: &[&str]) -> String {
    let header = format!(
        r#"{{"schema":"mt.profile/1","record":"header","workload":{WORKLOAD},"device":{{"kind":"sim","name":"x","simulated":true}},"design":"grid","seed":1}}"#
    );
    let mut text = header.replace('\n', " ");
    for sample in samples {
        text.push('\n');
        text.push_str(sample);
    }
    text
}

const SAMPLE: &str = r#"{"schema":"mt.profile/1","record":"sample","config":0,"tasks":[{"id":"a","batch":128,"share_percent":100,"samples_per_s":1234.5}],"window_s":1,"repeats":1}"#;

#[test]
fn profiles_follow_each_other_in_a_stream() {
    let text = format!("{}\n{}", profile(&[SAMPLE]), profile(&[SAMPLE, SAMPLE]));
    let counts: Vec<usize> = Profiles::new(Frames::new(text.as_bytes(), "p"))
        .map(|p| p.unwrap().samples.len())
        .collect();
    assert_eq!(counts, [1, 2]);
    let kinds: Vec<Any> = AnyDocuments::new(Frames::new(text.as_bytes(), "p"))
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(kinds.len(), 2);
}

#[test]
fn a_profile_with_a_strange_record_is_not_handed_on() {
    let strange = SAMPLE.replace("mt.profile/1", "mt.profil/1");
    for record in [strange.as_str(), "{]"] {
        let text = profile(&[SAMPLE, record, SAMPLE]);
        let mut read = Measurements::new(Frames::new(text.as_bytes(), "p"));
        assert!(read.next().unwrap().is_err(), "{record}");
        assert!(read.next().is_none());
    }
}

#[test]
fn a_sample_names_tasks_of_its_workload() {
    let stranger = SAMPLE.replace("\"id\":\"a\"", "\"id\":\"z\"");
    let text = profile(&[SAMPLE, &stranger]);
    let Some(Err(ReadError::Faults(faults))) =
        Profiles::new(Frames::new(text.as_bytes(), "p")).next()
    else {
        panic!("must be refused");
    };
    assert_eq!(faults.line, 3);
    assert_eq!(faults.faults[0].path, "$.tasks[0].id");
    assert_eq!(faults.faults[0].code, Code::UnknownName);
}

#[test]
fn generated_files_are_fresh() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../schemas");
    for (name, text) in doc::schemas() {
        let found = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(found == text, "{name} is stale; run `make schemas`");
    }
}
