package main

import (
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// treeVersion stands in the tree where a release has its version.
const treeVersion = "0.0.0"

// semantic is the version as Helm and npm take it: the tag without its letter. What is no
// semantic version, such as a commit, becomes a version before all releases.
func (r release) semantic() string {
	number := r.number()
	if semver.Canonical("v"+number) == "v"+number {
		return number
	}
	return treeVersion + "-g" + number // a letter, because a number may not begin with 0
}

// tagged are the tags that Python has a version for.
var tagged = regexp.MustCompile(`^(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?$`)

// stages are the names that PEP 440 has for what comes before a release.
var stages = map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}

var notLocal = regexp.MustCompile(`[^a-z0-9]+`)

// pep440 is the version as Python takes it (PEP 440): 1.4.0-rc.1 is 1.4.0rc1. Every other
// version becomes a local one (+) before all releases, which no public index takes.
func (r release) pep440() string {
	number := r.number()
	if part := tagged.FindStringSubmatch(number); part != nil {
		return part[1] + stages[part[2]] + part[3]
	}
	label := notLocal.ReplaceAllString(strings.ToLower(number), ".")
	return treeVersion + ".dev0+" + strings.Trim(label, ".")
}
