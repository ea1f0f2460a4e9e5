// Command headgate is a distributed rate limiter; see `headgate --help`.
package main

import (
	"os"

	"github.com/headgate/headgate/internal/cli"
)

func main() {
	os.Exit(cli.Run(cli.Arguments(os.Args), os.Stdin, os.Stdout, os.Stderr))
}
