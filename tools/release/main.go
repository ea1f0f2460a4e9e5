// Command release builds what is published of Headgate: archives of the binary for each
// system, an image for containers, packages for Debian and RPM systems, a list of what is
// linked (SBOM) and the licences of it, the Helm chart, the clients in other languages as
// npm and Python take them, and checksums. The same tree, version and time give the same
// bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is what is being published.
type release struct {
	root    string    // directory of the repository
	out     string    // directory that is written to
	version string    // a tag, such as "v1.2.3"
	time    time.Time // of the commit: the time of every file
	targets []target
	clients []client
	tools   string // directory of what packs clients, with a folder for each language
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", "../..", "directory of the repository")
	out := flags.String("out", "", "directory to write to; it must be absent or empty")
	version := flags.String("version", "", "version, such as v1.2.3")
	seconds := flags.Int64("time", 0, "time of every file, in seconds after 1970")
	only := flags.String("only", "", "build for these targets and pack these clients alone, such as linux/amd64,darwin/arm64,python")
	tools := flags.String("tools", "", "directory of what packs clients; .tools/clients of the repository, which make deps fills, unless it is given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	targets, clients, err := partsOf(*only)
	if err != nil {
		return err
	}
	if *version == "" || strings.ContainsAny(*version, " /") {
		return fmt.Errorf("-version: %q is none; hint: a tag, such as v1.2.3", *version)
	}
	if *tools == "" {
		*tools = filepath.Join(*root, ".tools/clients")
	}
	r := release{root: *root, out: *out, version: *version, time: time.Unix(*seconds, 0).UTC(),
		targets: targets, clients: clients, tools: *tools}
	return r.build()
}

// number is the version without the letter of tags: names of files have it.
func (r release) number() string { return strings.TrimPrefix(r.version, "v") }

// build makes everything, and the checksums last.
func (r release) build() error {
	if err := emptyDir(r.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "headgate-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, c := range r.clients {
		if err := r.packClient(c, work); err != nil {
			return fmt.Errorf("client in %s: %w", c.name, err)
		}
	}
	if len(r.targets) > 0 {
		if err := r.programs(work); err != nil {
			return err
		}
	}
	return writeSums(r.out)
}

// programs makes what is built of the program, and the chart.
func (r release) programs(work string) error {
	if err := r.compile(work); err != nil {
		return err
	}
	documents, err := r.documents(work)
	if err != nil {
		return err
	}
	var images []platformImage
	for _, t := range r.targets {
		binary := filepath.Join(work, t.binary())
		modules, err := linked(binary)
		if err != nil {
			return err
		}
		licensed, err := licences(modules)
		if err != nil {
			return err
		}
		files := slices.Concat(documents, []file{{name: "THIRD_PARTY_LICENCES", data: notice(licensed)}})
		if err := r.publish(t, binary, files, licensed); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if t.os == "linux" {
			images = append(images, platformImage{arch: t.arch, binary: binary, licences: notice(licensed)})
		}
	}
	if err := r.chart(); err != nil {
		return err
	}
	if len(images) == 0 {
		return nil
	}
	return r.image(filepath.Join(r.out, "headgate_"+r.number()+"_image.tar"), images)
}

// publish writes the archive, the SBOM and the packages of a target.
func (r release) publish(t target, binary string, files []file, licensed []licensedModule) error {
	bom, err := r.bom(t, licensed)
	if err != nil {
		return err
	}
	name := filepath.Join(r.out, fmt.Sprintf("headgate_%s_%s_%s", r.number(), t.os, t.arch))
	if err := os.WriteFile(name+".cdx.json", bom, 0o644); err != nil {
		return err
	}
	if err := r.archive(name, t, binary, files); err != nil || t.os != "linux" {
		return err
	}
	return r.packages(t, binary, files)
}

// emptyDir makes a directory, and refuses one that has something in it: what was there would
// be in the checksums.
func emptyDir(dir string) error {
	if dir == "" {
		return fmt.Errorf("-out: no directory is named; hint: -out dist")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("-out: %s is not empty; hint: remove what is in it", dir)
	}
	return err
}
