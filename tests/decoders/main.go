// Turns a rendered file back into the command lines that its reader would start, with the reader's
// own code: `decode kubernetes < CONTAINER.json`, `decode compose FILE [NAME=VALUE]...`; and
// `decode yaml < DOCUMENT` reads as Kubernetes does, `decode compose-schema` prints the schema of
// compose files. Built by ci/cluster, run by tests/e2e/render. Prints JSON and starts nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/schema"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/docker/cli/pkg/kvfile"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"sigs.k8s.io/yaml"
)

// Process is what would be started.
type Process struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
}

// container is the part of a pod's container that makes its command line.
type container struct {
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
}

// kubernetes expands as the kubelet does: a variable sees those above it, the command sees all.
func kubernetes(in io.Reader) (Process, error) {
	var from container
	if err := json.NewDecoder(in).Decode(&from); err != nil {
		return Process{}, err
	}
	env := map[string]string{}
	mapping := expansion.MappingFuncFor(env)
	for _, one := range from.Env {
		env[one.Name] = expansion.Expand(one.Value, mapping)
	}
	argv := []string{}
	for _, word := range append(from.Command, from.Args...) {
		argv = append(argv, expansion.Expand(word, mapping))
	}
	return Process{Argv: argv, Env: env}, nil
}

// raw reads an env_file of `format: raw`. The format is not compose-go's: `docker compose` adds it,
// by this reader of docker's.
func raw(in io.Reader, _ string, found map[string]string, lookup func(string) (string, bool)) error {
	lines, err := kvfile.ParseFromReader(in, lookup)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		found[name] = value
	}
	return err
}

// compose loads a file as `docker compose` does, each service by its name.
func compose(file string, environment []string) (map[string]Process, error) {
	dotenv.RegisterFormat("raw", raw)
	details := types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: types.NewMapping(environment),
	}
	project, err := loader.LoadWithContext(context.Background(), details, func(o *loader.Options) {
		o.SetProjectName("decoded", true)
	})
	if err != nil {
		return nil, err
	}
	found := map[string]Process{}
	for name, service := range project.Services {
		env := map[string]string{}
		for key, value := range service.Environment {
			if value != nil {
				env[key] = *value
			}
		}
		argv := append(append([]string{}, service.Entrypoint...), service.Command...)
		found[name] = Process{Argv: argv, Env: env}
	}
	return found, nil
}

// document is what kubectl makes of one YAML document.
func document(in io.Reader) (json.RawMessage, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(text)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "decode:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var found any
	var err error
	switch {
	case len(args) == 1 && args[0] == "kubernetes":
		found, err = kubernetes(os.Stdin)
	case len(args) >= 2 && args[0] == "compose":
		found, err = compose(args[1], args[2:])
	case len(args) == 1 && args[0] == "compose-schema":
		found = json.RawMessage(schema.Schema)
	case len(args) == 1 && args[0] == "yaml":
		found, err = document(os.Stdin)
	default:
		err = fmt.Errorf("usage: decode kubernetes | yaml | compose-schema | compose FILE [NAME=VALUE]")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
