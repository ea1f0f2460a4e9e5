package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
)

// TestDockerfile holds that the image which Docker would build is run as the published one.
func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile("../../deploy/container/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	config := release{}.config("amd64", empty.Image).Config
	list := func(words []string) string {
		text, err := json.Marshal(words)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, line := range []string{
		"USER " + config.User,
		"ENTRYPOINT " + list(config.Entrypoint),
		"CMD " + list(config.Cmd),
		"ENV " + config.Env[0],
		"EXPOSE 8080 8081",
	} {
		if !strings.Contains(string(data), "\n"+line+"\n") {
			t.Errorf("the Dockerfile has no line %s", line)
		}
	}
	for _, port := range []string{"8080/tcp", "8081/tcp"} {
		if _, ok := config.ExposedPorts[port]; !ok {
			t.Errorf("the published image does not expose %s", port)
		}
	}
	for _, text := range []string{tagVariable + "=", "/image/bin/ratelimit", fmt.Sprintf("chown %d:%d /image/var/lib/headgate", imageUser, imageUser)} {
		if !strings.Contains(string(data), text) {
			t.Errorf("the Dockerfile has no %s", text)
		}
	}
}
