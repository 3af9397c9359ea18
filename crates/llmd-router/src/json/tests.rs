use super::*;

/// Keys and values of an object, or the problem.
fn read(text: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let mut members = Vec::new();
    let mut object = Object::open(text)?;
    while let Some(key) = object.key()? {
        let value = object.value()?;
        members.push((key.into_owned(), String::from_utf8_lossy(&text[value]).into_owned()));
    }
    object.close()?;
    Ok(members)
}

#[test]
fn members_are_found_with_their_places() {
    let text = br#" { "a" : [1, {"b":"]}"}, []] ,"\u0063":"x\"y" , "d":-1.5e+3,"e":{} } "#;
    let found = read(text).unwrap();
    let expected =
        [("a", r#"[1, {"b":"]}"}, []]"#), ("c", r#""x\"y""#), ("d", "-1.5e+3"), ("e", "{}")];
    let expected: Vec<_> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(found, expected);
    assert_eq!(read(b"{}").unwrap(), []);
}

#[test]
fn what_is_no_json_is_told_with_its_place() {
    for (text, at) in [
        ("", 0),
        ("{", 1),
        ("{,}", 1),
        ("{\"a\"}", 4),
        ("{\"a\":}", 5),
        ("{\"a\":1,}", 7),
        ("{\"a\":1 2}", 7),
        ("{\"a\":1}x", 7),
        ("{\"a\":01}", 6),
        ("{\"a\":1.}", 7),
        ("{\"a\":-}", 6),
        ("{\"a\":NaN}", 5),
        ("{\"a\":Infinity}", 5),
        ("{\"a\":nul}", 5),
        ("{\"a\":[1,]}", 8),
        ("{\"a\":[1}}", 7),
        ("{\"a\":{\"b\":1]}", 11),
        ("{\"a\":\"x\\\"}", 10),
        ("{\"a\":\"x\\\\\\\"}", 12),
        ("{\"a\":\"\\\n\"}", 7),
        ("{\"a\":\"x\ny\"}", 7),
        ("{'a':1}", 1),
        ("{\"\\ud800\":1}", 1),
        ("{\"\\x\":1}", 1),
    ] {
        assert_eq!(read(text.as_bytes()).map_err(|problem| problem.at), Err(at), "{text}");
    }
}

/// Short strings are read in another way than long ones.
#[test]
fn a_string_of_any_length_ends_at_its_quote_and_holds_no_control_characters() {
    for length in 0..3 * SHORT {
        let plain = "x".repeat(length);
        let text = format!("{{\"{plain}\":\"{plain}\"}}");
        let expected = [(plain.clone(), format!("\"{plain}\""))];
        assert_eq!(read(text.as_bytes()).unwrap(), expected, "{length}");
        for at in 0..length {
            let with = |what: &str| format!("{{\"a\":\"{}{what}{}\"}}", &plain[..at], &plain[at..]);
            for escaped in ["\\\"", "\\\\", "\\n"] {
                let text = with(escaped);
                let value = &text["{\"a\":".len()..text.len() - 1];
                assert_eq!(read(text.as_bytes()).unwrap(), [("a".to_owned(), value.to_owned())]);
            }
            for wrong in ["\n", "\0", "\u{1f}"] {
                let problem = read(with(wrong).as_bytes()).unwrap_err();
                assert_eq!((problem.what, problem.at), ("a control character in a string", 6 + at));
            }
        }
        let problem = read(format!("{{\"{plain}").as_bytes()).unwrap_err();
        assert_eq!((problem.what, problem.at), ("the text ends too early", 2 + length));
    }
}

#[test]
fn what_escapes_in_values_mean_is_not_this_readers_business() {
    for text in [r#"{"a":"\ud800"}"#, r#"{"a":"\x"}"#, r#"{"a":"\u12g4"}"#, r#"{"a":"\u"}"#] {
        assert!(read(text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn quotes_end_a_string_where_they_are_not_escaped() {
    for backslashes in 0..9 {
        let text = format!("{{\"a\":\"{}\",\"b\":1}}", "\\".repeat(backslashes));
        assert_eq!(read(text.as_bytes()).is_ok(), backslashes % 2 == 0, "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        read(format!("{{\"a\":{open}{close}}}").as_bytes()).map(|_| ())
    };
    assert_eq!(nested(MAX_DEPTH as usize), Ok(()));
    assert_eq!(nested(MAX_DEPTH as usize + 1).unwrap_err().at, 5 + MAX_DEPTH as usize);
    assert!(nested(100_000).is_err());
}

#[test]
fn members_inside_a_value_are_found_but_not_inside_each_other() {
    let text = br#"{"m":[{"x":{"x":1}},{"y":"x"},{"x":"\"x\":"}],"x":5}"#;
    let mut object = Object::open(text).unwrap();
    object.key().unwrap();
    let mut found = Vec::new();
    object.value_with(|key| (key == b"x").then_some(()), &mut found).unwrap();
    let found: Vec<_> = found.iter().map(|((), span)| &text[span.clone()]).collect();
    assert_eq!(found, [&br#"{"x":1}"#[..], br#""\"x\":""#]);
}

/// Whatever is changed in a text, this reader and serde's agree on whether it is JSON, but for
/// escapes that mean nothing.
#[test]
fn it_agrees_with_serde_on_what_json_is() {
    let seeds = [
        r#"{"model":"m","messages":[{"role":"user","content":"\u00e9 \\ \"q\" and a block"}]}"#,
        r#"{"a":[1,-2.5e3,true,false,null,{"b":[[]],"c":{}}],"d":""}"#,
    ];
    let alphabet = b"{}[]\",:\\u0129aetfn. -+E\x01\n";
    let mut rng = llmd_sched::Rng::seeded(5);
    let mut accepted = 0;
    for round in 0..40_000_u64 {
        let mut text = seeds[(round % 2) as usize].as_bytes().to_vec();
        for _ in 0..rng.next_u64() % 3 {
            let at = (rng.next_u64() % text.len() as u64) as usize;
            let byte = alphabet[(rng.next_u64() % alphabet.len() as u64) as usize];
            match rng.next_u64() % 3 {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => drop(text.remove(at)),
            }
        }
        let ours = read(&text);
        let theirs: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_slice(&text);
        let object = super::super::body::instead_of_object(&text).is_none();
        let shown = String::from_utf8_lossy(&text);
        let escape = theirs.as_ref().err().is_some_and(|error| {
            let error = error.to_string();
            error.contains("escape") || error.contains("surrogate")
        });
        if !escape {
            assert_eq!(ours.is_ok(), object && theirs.is_ok(), "{shown}");
        }
        accepted += u32::from(ours.is_ok());
    }
    assert!(accepted > 5_000, "{accepted}");
}
