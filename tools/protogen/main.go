// Command protogen writes the Go code of the .proto files of a tree:
//
//	go run ./protogen ROOT
//
// They are below ROOT/proto, and say in which package of the tree their code is. They may
// import the files of Envoy's API and those that come with protobuf, which are taken from the
// Go packages that were made of them, so that neither protoc nor their text is needed.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3" // what may be imported
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// module is the path of the tree's Go module.
const module = "github.com/headgate/headgate"

// plugins are the tools of go.mod that make code.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen ROOT")
		os.Exit(2)
	}
	made, err := generate(context.Background(), os.Args[1])
	if err == nil {
		err = write(os.Args[1], made)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "make code of .proto files: %v\n", err)
		os.Exit(1)
	}
}

// write writes files into the tree at root.
func write(root string, made map[string]string) error {
	for name, content := range made {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sources returns the names of the .proto files below dir.
func sources(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".proto" {
			return err
		}
		name, err = filepath.Rel(dir, name)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// generate returns the Go files of the tree at root by their names.
func generate(ctx context.Context, root string) (map[string]string, error) {
	dir := filepath.Join(root, "proto")
	names, err := sources(dir)
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{dir}},
			protocompile.ResolverFunc(linked),
		},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become those of Go
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: proto.String("module=" + module)}
	seen := map[string]bool{}
	for _, file := range files {
		request.ProtoFile = withImports(file, request.ProtoFile, seen)
	}
	made := map[string]string{}
	for _, plugin := range plugins {
		if err := run(ctx, plugin, request, made); err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return made, nil
}

// linked finds a file of a Go package that is part of this program.
func linked(path string) (protocompile.SearchResult, error) {
	found, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return protocompile.SearchResult{}, err
	}
	return protocompile.SearchResult{Desc: found}, nil
}

// withImports appends the file with all that it imports, each after what it imports.
func withImports(file protoreflect.FileDescriptor, all []*descriptorpb.FileDescriptorProto, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return all
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		all = withImports(file.Imports().Get(i).FileDescriptor, all, seen)
	}
	return append(all, protodesc.ToFileDescriptorProto(file))
}

// run adds what a plugin makes to made.
func run(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest, made map[string]string) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	var out, told bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &told
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(told.String()))
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.GetFile() {
		made[f.GetName()] = f.GetContent()
	}
	return nil
}
