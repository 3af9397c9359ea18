// The linters of two kinds of file, as their readers ship them: `lint containerfile FILE` says what
// `docker build --check` would, and `lint workflow FILE` what GitHub Actions would refuse. Built by
// ci/cluster, run by tests/e2e/render. It asks no registry: what a base image holds is not known.
// Prints a list of findings as JSON; a file that is no such file is an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerui"
	digest "github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rhysd/actionlint"
)

// Finding is what a linter says of one place.
type Finding struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
	Line int    `json:"line"`
}

// offline stands for every base image.
type offline struct{}

func (offline) ResolveImageConfig(
	_ context.Context, ref string, _ sourceresolver.Opt,
) (string, digest.Digest, []byte, error) {
	config := []byte(`{"os": "linux", "architecture": "amd64", "config": {}}`)
	return ref, digest.FromBytes(config), config, nil
}

func containerfile(file string, text []byte) ([]Finding, error) {
	source := llb.NewSourceMap(nil, file, "Dockerfile", text)
	source.Definition = &llb.Definition{}
	platform := ocispecs.Platform{OS: "linux", Architecture: "amd64"}
	options := dockerfile2llb.ConvertOpt{
		Config:         dockerui.Config{BuildPlatforms: []ocispecs.Platform{platform}},
		SourceMap:      source,
		TargetPlatform: &platform,
		MetaResolver:   offline{},
	}
	results, err := dockerfile2llb.DockerfileLint(context.Background(), text, options)
	if err != nil {
		return nil, err
	}
	if results.Error != nil {
		return nil, errors.New(results.Error.Message)
	}
	found := []Finding{}
	for _, warning := range results.Warnings {
		line := 0
		if len(warning.Location.GetRanges()) > 0 {
			line = int(warning.Location.Ranges[0].Start.Line)
		}
		found = append(found, Finding{warning.RuleName, warning.Detail, line})
	}
	return found, nil
}

func workflow(file string, text []byte) ([]Finding, error) {
	// Without programs of the machine (shellcheck, pyflakes), which are there or not.
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		return nil, err
	}
	results, err := linter.Lint(file, text, nil)
	if err != nil {
		return nil, err
	}
	found := []Finding{}
	for _, one := range results {
		found = append(found, Finding{one.Kind, one.Message, one.Line})
	}
	return found, nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	kinds := map[string]func(string, []byte) ([]Finding, error){
		"containerfile": containerfile, "workflow": workflow,
	}
	if len(args) != 2 || kinds[args[0]] == nil {
		return errors.New("usage: lint containerfile FILE | lint workflow FILE")
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	found, err := kinds[args[0]](args[1], text)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
