// Command kong-plugin is a plugin of Kong Gateway that asks Headgate about each request. Kong
// starts it as a plugin server and talks to it over a unix socket.
//
// See README.md beside this file.
package main

import (
	"bytes"
	"flag"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/Kong/go-pdk/server"
)

func main() {
	log.SetFlags(0) // Kong writes the time
	log.SetOutput(sifted{os.Stderr})
	if err := run(); err != nil {
		log.Fatalf("headgate: %v", err)
	}
}

// run serves Kong; -dump describes the plugin in place of that. The PDK owns the flags.
func run() error {
	flag.Parse()
	if flag.Lookup("dump").Value.String() == "true" {
		path, err := os.Executable()
		if err != nil {
			return err
		}
		prefix := flag.Lookup("kong-prefix").Value.String()
		return describeTo(os.Stdout, filepath.Join(prefix, filepath.Base(path)+".socket"))
	}
	return server.StartServer(func() any { return newConfig() }, version, priority)
}

// sifted leaves out lines that the PDK logs for each request that a plugin answers, because
// it closes the connection for that, and for each connection that Kong closes. They would
// fill Kong's log while clients are denied.
type sifted struct{ to io.Writer }

func (s sifted) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("use of closed network connection")) || bytes.Equal(bytes.TrimSpace(line), []byte("EOF")) {
		return len(line), nil
	}
	return s.to.Write(line)
}
