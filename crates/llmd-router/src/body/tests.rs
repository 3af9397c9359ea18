use super::*;
use crate::api;

fn chat(body: &[u8]) -> Result<Ask, Failure> {
    parse(api::named("chat").unwrap(), &HeaderMap::new(), body)
}

fn texts<'a>(body: &'a str, ask: &Ask) -> Vec<&'a str> {
    ask.prompt.iter().map(|part| &body[part.span.clone()]).collect()
}

#[test]
fn the_parts_of_a_chat_request_are_found_in_template_order() {
    let body = r#" {"messages": [{"role":"user","content":"hi"}], "model" : "chat",
        "stream":true,"max_tokens":7,"other":{"model":"x"},"tools":[1]} "#;
    let ask = chat(body.as_bytes()).unwrap();
    assert_eq!(ask.model, "chat");
    assert_eq!(&body[ask.model_span.clone()], "\"chat\"");
    assert!(ask.stream);
    assert_eq!(ask.max_tokens, Some(7));
    assert_eq!(texts(body, &ask), ["[1]", r#"[{"role":"user","content":"hi"}]"#]);
    assert_eq!(&body[ask.end..], "} ");
}

#[test]
fn each_api_says_what_its_prompt_is() {
    // Members against the order of templates; each value names its place in that order.
    for (name, members, needs_model) in [
        ("chat", &["messages", "tools"][..], true),
        ("completions", &["suffix", "prompt"], true),
        ("responses", &["input", "instructions", "tools"], true),
        ("messages", &["messages", "system", "tools"], true),
        ("count-tokens", &[], true),
        ("embeddings", &["messages", "input"], true),
        ("rerank", &["documents", "query"], false),
        (
            "score",
            &["data_2", "items_2", "documents", "text_2", "data_1", "items_1", "queries", "text_1"],
            false,
        ),
        ("pooling", &["data", "messages", "input"], false),
        ("classify", &["messages", "input"], false),
        ("tokenize", &[], false),
        ("detokenize", &[], false),
        ("speech", &["input", "instructions"], true),
        ("images", &["prompt"], false),
    ] {
        let api = api::named(name).unwrap();
        let places = (0..members.len()).rev();
        let written: Vec<String> =
            members.iter().zip(places).map(|(key, at)| format!(",\"{key}\":[{at}]")).collect();
        let rest = format!("\"other\":1,\"previous_response_id\":\"r\"{}", written.concat());
        let body = format!("{{\"model\":\"m\",{rest}}}");
        let ask = parse(api, &HeaderMap::new(), body.as_bytes()).unwrap();
        let in_order: Vec<String> = (0..members.len()).map(|at| format!("[{at}]")).collect();
        assert_eq!(texts(&body, &ask), in_order, "{name}");
        assert_eq!(ask.model, "m", "{name}");
        // Only of responses it means something.
        assert_eq!(ask.previous.is_some(), name == "responses", "{name}");
        for nameless in [format!("{{{rest}}}"), format!("{{\"model\":null,{rest}}}")] {
            let ask = parse(api, &HeaderMap::new(), nameless.as_bytes());
            assert_eq!(ask.is_err(), needs_model, "{name} {nameless}");
        }
        let silent = body.replace('[', "null,\"x").replace(']', "\":[]");
        let ask = parse(api, &HeaderMap::new(), silent.as_bytes());
        assert!(ask.is_ok_and(|ask| ask.prompt.is_empty()), "{name}: null");
    }
}

#[test]
fn each_form_says_what_its_prompt_is() {
    let (audio, image) = (Some(Media::Audio), Some(Media::Image));
    for (name, parts, kinds, needs_model) in [
        ("transcriptions", &["file", "prompt"][..], &[None, audio][..], true),
        ("translations", &["file", "prompt"], &[None, audio], true),
        (
            "image-edits",
            &["mask", "image[]", "image[]", "image", "image", "prompt"],
            &[None, image, image, image, image, image],
            false,
        ),
    ] {
        let api = api::named(name).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, FORM.parse().unwrap());
        let heads: Vec<String> = parts.iter().map(|part| format!("name=\"{part}\"")).collect();
        let mut rows: Vec<(&str, &str)> =
            heads.iter().zip(parts).map(|(head, part)| (&**head, *part)).collect();
        assert_eq!(parse(api, &headers, &form(&rows)).is_err(), needs_model, "{name}");
        rows.push(("name=model", "m"));
        let body = String::from_utf8(form(&rows)).unwrap();
        let ask = parse(api, &headers, body.as_bytes()).unwrap();
        let found: Vec<_> = ask.prompt.iter().map(|part| part.media).collect();
        assert_eq!(found, kinds, "{name}");
        let mut told = texts(&body, &ask);
        told.reverse();
        let mut parts = parts.to_vec();
        // Of one name in the order of the form.
        parts.sort_by_key(|part| {
            ["mask", "image[]", "image", "file", "prompt"].iter().position(|name| name == part)
        });
        assert_eq!(told, parts, "{name}");
    }
}

#[test]
fn each_member_that_may_hold_media_may_hold_all_kinds_of_its_api() {
    const CHAT: &[(&str, Media)] = &[
        ("image_url", Media::Image),
        ("input_audio", Media::Audio),
        ("audio_url", Media::Audio),
        ("video_url", Media::Video),
        ("file", Media::File),
    ];
    const RESPONSES: &[(&str, Media)] = &[
        ("image_url", Media::Image),
        ("input_audio", Media::Audio),
        ("file_data", Media::File),
        ("file_url", Media::File),
    ];
    for (name, members, kinds) in [
        ("chat", &["messages"][..], CHAT),
        ("responses", &["input"], RESPONSES),
        ("embeddings", &["messages"], CHAT),
        ("rerank", &["query", "documents"], CHAT),
        ("score", &["queries", "data_1", "documents", "data_2"], CHAT),
        ("pooling", &["messages"], CHAT),
        ("classify", &["messages"], CHAT),
    ] {
        let api = api::named(name).unwrap();
        for (member, (key, kind)) in
            members.iter().flat_map(|member| kinds.iter().map(move |kind| (member, kind)))
        {
            let body = format!("{{\"model\":\"m\",\"{member}\":[{{\"{key}\":{{\"x\":1}}}}]}}");
            let ask = parse(api, &HeaderMap::new(), body.as_bytes()).unwrap();
            let found: Vec<_> =
                ask.prompt.iter().map(|p| (p.media, &body[p.span.clone()])).collect();
            let expected =
                [(None, &*format!("[{{\"{key}\":")), (Some(*kind), "{\"x\":1}"), (None, "}]")];
            assert_eq!(found, expected, "{name} {member} {key}");
        }
    }
}

#[test]
fn parts_that_are_no_text_are_told_apart_from_text() {
    let rows = [
        (
            "chat",
            r#"{"type":"image_url","image_url":{"url":"D"}}"#,
            Some((Media::Image, r#"{"url":"D"}"#)),
        ),
        (
            "chat",
            r#"{"type":"input_audio","input_audio":{"data":"D"}}"#,
            Some((Media::Audio, r#"{"data":"D"}"#)),
        ),
        (
            "chat",
            r#"{"type":"video_url","video_url":{"url":"D"}}"#,
            Some((Media::Video, r#"{"url":"D"}"#)),
        ),
        (
            "chat",
            r#"{"type":"file","file":{"file_data":"D"}}"#,
            Some((Media::File, r#"{"file_data":"D"}"#)),
        ),
        ("chat", r#"{"type":"text","text":"\"image_url\":5"}"#, None),
        ("chat", r#"{"type":"text","image_url":null}"#, None),
        (
            "messages",
            r#"{"type":"image","source":{"data":"D","media_type":"image/png","type":"base64"}}"#,
            Some((Media::Image, r#"{"data":"D","media_type":"image/png","type":"base64"}"#)),
        ),
        (
            "messages",
            r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf"}}"#,
            Some((Media::File, r#"{"type":"base64","media_type":"application/pdf"}"#)),
        ),
        ("messages", r#"{"type":"tool_use","input":{"source":"a","file":{"x":1}}}"#, None),
        ("messages", r#"{"type":"document","source":{"type":"text","data":"words"}}"#, None),
        ("responses", r#"{"type":"input_image","image_url":"D"}"#, Some((Media::Image, "\"D\""))),
        ("responses", r#"{"type":"input_file","file_data":"D"}"#, Some((Media::File, "\"D\""))),
    ];
    for (name, part, expected) in rows {
        let key = if name == "responses" { "input" } else { "messages" };
        let body = format!("{{\"model\":\"m\",\"{key}\":[{{\"content\":[{part}]}}]}}");
        let api = api::named(name).unwrap();
        let ask = parse(api, &HeaderMap::new(), body.as_bytes()).unwrap();
        let media: Vec<_> =
            ask.prompt.iter().filter_map(|p| Some((p.media?, &body[p.span.clone()]))).collect();
        assert_eq!(media, expected.into_iter().collect::<Vec<_>>(), "{part}");
        // Nothing of the value is lost.
        assert_eq!(texts(&body, &ask).concat(), format!("[{{\"content\":[{part}]}}]"));
    }
}

#[test]
fn limits_have_several_names() {
    for (body, most) in [
        (r#"{"model":"m","max_tokens":7,"max_completion_tokens":9}"#, Some(9)),
        (r#"{"model":"m","max_completion_tokens":9,"max_tokens":7}"#, Some(9)),
        (r#"{"model":"m","max_tokens":7}"#, Some(7)),
        (r#"{"model":"m","max_tokens":-7}"#, None),
        (r#"{"model":"m","max_output_tokens":7}"#, Some(7)),
    ] {
        assert_eq!(chat(body.as_bytes()).unwrap().max_tokens, most, "{body}");
    }
}

#[test]
fn stream_is_read_as_engines_read_it() {
    for (value, stream) in [
        ("true", true),
        ("false", false),
        ("null", false),
        ("1", true),
        ("1.0", true),
        ("1e0", true),
        ("0", false),
        ("2", false),
        ("\"true\"", true),
        ("\"True\"", true),
        ("\"t\"", true),
        ("\"YES\"", true),
        ("\"y\"", true),
        ("\"on\"", true),
        ("\"1\"", true),
        ("\"\\u0031\"", true),
        ("\"0\"", false),
        ("\"off\"", false),
        ("\" true\"", false),
        ("\"2\"", false),
        ("[true]", false),
        ("{}", false),
    ] {
        let body = format!("{{\"model\":\"m\",\"stream\":{value}}}");
        assert_eq!(chat(body.as_bytes()).unwrap().stream, stream, "{value}");
    }
}

#[test]
fn token_ids_are_counted_and_text_is_not() {
    let tokens = |prompt: &str| {
        let body = format!("{{\"model\":\"m\",\"prompt\":{prompt}}}");
        let api = api::named("completions").unwrap();
        parse(api, &HeaderMap::new(), body.as_bytes()).unwrap().prompt_tokens
    };
    assert_eq!(tokens("[1, 2, 3]"), Some(3));
    assert_eq!(tokens("\"1, 2, 3\""), None);
    assert_eq!(tokens("[\"a, b\"]"), None);
    assert_eq!(tokens("[]"), None);
}

#[test]
fn what_cannot_be_read_is_a_bad_request() {
    let keys = |count: usize| {
        let members: Vec<String> = (0..count).map(|key| format!("\"{key}\":1")).collect();
        format!("{{\"model\":\"m\",{}}}", members.join(",")).into_bytes()
    };
    assert!(chat(&keys(MAX_KEYS - 1)).is_ok());
    let bodies: [&[u8]; 11] = [
        &keys(MAX_KEYS),
        b"",
        b"[]",
        b"{",
        b"{\"model\":\"m\"} x",
        b"{\"model\":5}",
        b"{\"model\":null}",
        b"{\"messages\":[]}",
        b"{\"model\":\"\\ud800\"}",
        b"{\"model\":\"m\",\"prompt\":\"\xff\"}",
        b"{\"model\":\"m\",\"mod\\u0065l\":\"n\"}",
    ];
    for body in bodies {
        let failure = chat(body).unwrap_err();
        assert_eq!(failure.status(), 400, "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn a_body_that_is_no_object_is_refused_in_the_users_words() {
    for (body, found) in [
        (r#"["m", true, 5, 5, [], [], "p"]"#, "a list at byte 0"),
        (" \n null", "null at byte 3"),
        ("\"m\"", "a string at byte 0"),
        ("-1", "a number at byte 0"),
        ("true", "a boolean at byte 0"),
        ("\u{feff}{}", "behind a byte order mark at byte 0"),
        (" ", "empty at byte 1"),
    ] {
        let message = chat(body.as_bytes()).unwrap_err().message;
        assert_eq!(message, format!("the body must be a JSON object, it is {found}"));
    }
    let message = chat(b"{\"model\":").unwrap_err().message;
    assert_eq!(message, "the body is not valid: the text ends too early at byte 9");
}

#[test]
fn edits_change_their_places_and_nothing_else() {
    let body = Bytes::from(r#"{"model": "chat" ,"stream":true}"#);
    let ask = chat(&body).unwrap();
    assert_eq!(ask.rename("chat"), None);
    let rename = ask.rename("a\"b").unwrap();
    let add = Edit { place: ask.end..ask.end, text: ",\"x\":1".into() };
    let out = edited(&body, vec![add, rename]);
    assert_eq!(out, r#"{"model": "a\"b" ,"stream":true,"x":1}"#);
    assert_eq!(edited(&body, vec![]).as_ptr(), body.as_ptr());
}

fn form(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (head, content) in parts {
        body.push_str("--B\r\ncontent-disposition: form-data; ");
        body.push_str(head);
        body.push_str("\r\n\r\n");
        body.push_str(content);
        body.push_str("\r\n");
    }
    body.push_str("--B--\r\n");
    body.into_bytes()
}

fn transcription(body: &[u8], content_type: &str) -> Result<Ask, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
    parse(api::named("transcriptions").unwrap(), &headers, body)
}

const FORM: &str = "multipart/form-data; boundary=B";

#[test]
fn a_form_is_read_part_by_part() {
    let file = "RIFF\r\n--b\r\n\r\n--\r\n-B and so on";
    let body = form(&[
        ("name=\"file\"; filename=\"a;name=model;.wav\"\r\ncontent-type: audio/wav", file),
        ("name=\"timestamp_granularities[]\"", "word"),
        ("name=\"timestamp_granularities[]\"", "segment"),
        ("name=stream", "True"),
        ("filename=\"x\\\"y\"; name=\"model\"", "whisper"),
        ("name=\"prompt\"", ""),
    ]);
    for content_type in [FORM, "Multipart/Form-Data; charset=utf-8; boundary=\"B\""] {
        let ask = transcription(&body, content_type).unwrap();
        assert_eq!(ask.model, "whisper");
        assert!(ask.stream);
        let prompt: Vec<_> = ask.prompt.iter().map(|p| (p.media, &body[p.span.clone()])).collect();
        assert_eq!(prompt, [(None, &b""[..]), (Some(Media::Audio), file.as_bytes())]);
        let renamed = edited(&body.clone().into(), ask.rename("org/w").into_iter().collect());
        let expected = String::from_utf8(body.clone()).unwrap().replace("whisper", "org/w");
        assert_eq!(renamed, expected.as_bytes());
    }
}

#[test]
fn a_form_that_cannot_be_read_is_refused() {
    let good = form(&[("name=\"model\"", "m"), ("name=\"file\"", "x")]);
    let twice = form(&[("name=\"model\"", "m"), ("name=\"model\"", "n")]);
    let nameless = form(&[("filename=\"m\"", "m")]);
    let mut many = vec![("name=\"a[]\"", "m"); MAX_KEYS];
    many.push(("name=\"model\"", "m"));
    let most = form(&many[1..]);
    let many = form(&many);
    let two = form(&[("name=\"model\"\r\ncontent-disposition: form-data; name=\"x\"", "m")]);
    let long = "x".repeat(9_000);
    let long = form(&[(&format!("name=\"model\"; filename=\"{long}\""), "m")]);
    let empty = form(&[("name=\"x\"", ""), ("name=\"model\"", "m")]);
    let wide = "multipart/form-data; boundary=".to_owned() + &"B".repeat(71);
    for (body, content_type, status) in [
        (&good[..], FORM, 200),
        (&good, "application/json", 415),
        (&good, "multipart/form-data", 415),
        (&good, "multipart/form-data; boundary=B; boundary=C", 415),
        (&good, "multipart/form-data; boundary=C", 400),
        (&good[..good.len() - 8], FORM, 400),
        (&good[..20], FORM, 400),
        (&twice, FORM, 400),
        (&nameless, FORM, 400),
        (&many, FORM, 400),
        (&most, FORM, 200),
        (&two, FORM, 400),
        (&long, FORM, 400),
        (&empty, FORM, 200),
        (&good, "application/json; boundary=B", 415),
        (&good, &wide, 415),
        (&form(&[("name=\"file\"", "x")]), FORM, 400),
        (b"", FORM, 400),
    ] {
        let found = transcription(body, content_type).map_or_else(|f| f.status().as_u16(), |_| 200);
        assert_eq!(found, status, "{content_type} {:?}", String::from_utf8_lossy(body));
    }
}
