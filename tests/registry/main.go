// A container registry on loopback, for tests: the handlers of the distribution project over memory.
// `registry ADDRESS [HTPASSWD]` serves until it is killed; with a file of passwords (bcrypt) it asks
// for one of them. It prints the address once it listens. Built by ci/cluster, run by tests/e2e.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("usage: registry ADDRESS [HTPASSWD]")
	}
	config := &configuration.Configuration{
		Version: "0.1",
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
	}
	config.Log.Level = "error"
	config.HTTP.Secret = "of no use: nothing here outlives this process"
	if len(args) == 2 {
		config.Auth = configuration.Auth{
			"htpasswd": configuration.Parameters{"realm": "tests", "path": args[1]},
		}
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.Serve(listener, handlers.NewApp(context.Background(), config))
}
