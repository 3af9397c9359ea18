"""`llmd-ctl explain` as a user types it: text, documents, a fleet file, and wrong words."""

from pathlib import Path

import yaml

from tests.e2e.cli.command import document, run, start

FLEET = Path(__file__).parents[2] / "golden" / "explain" / "mixed.fleet.yaml"


def test_a_flag_of_an_engine_is_no_option_of_ours() -> None:
    flag = ("flag", "--attention-backend", "--accelerator", "amd-mi355x", "--engine", "vllm@0.32.0")
    shown = run("explain", *flag).stdout
    assert "ROCM_ATTN" in shown
    assert "V18" in shown
    found = document("explain", *flag)
    assert (found["kind"], found["name"]) == ("flag", "--attention-backend")
    as_yaml = run("explain", *flag, "--output", "yaml").stdout
    assert yaml.safe_load(as_yaml) == found


def test_a_field_of_a_fleet_says_what_holds_and_who_set_it() -> None:
    path = "spec.models[chat].variants[h100].engineArgs.maxNumSeqs"
    found = document("explain", path, FLEET)
    assert found == document("explain", path, "--file", FLEET)
    (row,) = found["effective"]
    assert (row["of"], row["value"], row["setBy"]) == ("chat/h100", 128, "engineArgs")
    assert row["place"]["line"] == 22
    planned = document("plan", FLEET, "--simulate", name="plan")["models"][0]["variants"][0]
    setting = planned["settings"]["--max-num-seqs"]
    assert (setting["value"], setting["setBy"]) == (row["value"], row["setBy"])
    assert setting["overruled"] == row["overruled"]


def test_a_wrong_file_is_told_as_elsewhere(tmp_path: Path) -> None:
    bad = tmp_path / "fleet.yaml"
    bad.write_text(FLEET.read_text().replace("replicas: 4", "replica: 4"))
    err = run("explain", "spec.router", "--file", bad, code=65).stderr
    assert "did you mean: replicas" in err
    assert "no such file" in run("explain", "spec.router", "--file", "none.yaml", code=65).stderr


def test_wrong_words_are_64_with_what_is_near() -> None:
    (problem,) = document("explain", "accelerator", "mi300", code=64, name="problems")["problems"]
    assert (problem["code"], problem["didYouMean"]) == ("LC6012", "amd-mi300x")
    err = run("explain", "flag", "--block-size", "--acelerator", "cpu-x86", code=64).stderr
    assert "did you mean: --accelerator" in err
    run("explain", "rule", "V06", "V07", code=64)
    run("explain", "spec.nothing", code=64)


def test_a_reader_that_went_away_is_no_error() -> None:
    with start("explain", "accelerator", "nvidia-h100") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_alone_it_lists_what_can_be_explained() -> None:
    found = document("explain")
    assert found["kind"] == "index"
    assert len(found["sections"][0]["facts"]) == 7
    assert "spec.models[].uri" in run("explain", "field").stdout
