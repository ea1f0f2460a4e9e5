package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// The members of CycloneDX 1.6 that are used: https://cyclonedx.org/docs/1.6/json/
type (
	bomDocument struct {
		Format       string          `json:"bomFormat"`
		SpecVersion  string          `json:"specVersion"`
		SerialNumber string          `json:"serialNumber"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Components   []bomComponent  `json:"components"`
		Dependencies []bomDependency `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string       `json:"timestamp"`
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Type       string        `json:"type"`
		Ref        string        `json:"bom-ref"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		PURL       string        `json:"purl"`
		Licences   []bomLicence  `json:"licenses"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomLicence struct {
		Licence struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	bomDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

const ownModule = "github.com/headgate/headgate"

// bom says, in CycloneDX, what the program of a target is linked of: the modules that stand
// in the program itself, and no others.
func (r release) bom(t target, modules []licensedModule) ([]byte, error) {
	own := component("application", linkedModule{path: ownModule, version: r.version}, []string{"Apache-2.0"})
	own.Properties = []bomProperty{{"headgate:target", t.String()}}
	document := bomDocument{Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: bomMetadata{r.time.Format(time.RFC3339), own}}
	tree := bomDependency{Ref: own.Ref}
	for _, m := range modules {
		c := component("library", m.linkedModule, m.ids)
		if m.sum != "" {
			c.Properties = []bomProperty{{"go.sum", m.sum}}
		}
		document.Components = append(document.Components, c)
		tree.DependsOn = append(tree.DependsOn, c.Ref)
	}
	document.Dependencies = []bomDependency{tree}
	return numbered(document)
}

// clientBOM says of the package of a client that it has no dependencies.
func (r release) clientBOM(c client) ([]byte, error) {
	number := c.number(r)
	own := component("library", linkedModule{path: ownModule + "/clients/" + c.name, version: number}, []string{"Apache-2.0"})
	own.PURL = c.purl + "@" + number
	own.Ref = own.PURL
	return numbered(bomDocument{Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: bomMetadata{r.time.Format(time.RFC3339), own}, Components: []bomComponent{},
		Dependencies: []bomDependency{{own.Ref, []string{}}}})
}

// numbered writes a document with its serial number, which is made of all else in it,
// because a number drawn by chance would make two builds differ.
func numbered(document bomDocument) ([]byte, error) {
	parts, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	document.SerialNumber = serial(parts)
	data, err := json.MarshalIndent(document, "", "  ")
	return append(data, '\n'), err
}

func component(kind string, m linkedModule, ids []string) bomComponent {
	purl := fmt.Sprintf("pkg:golang/%s@%s", m.path, m.version)
	c := bomComponent{Type: kind, Ref: purl, Name: m.path, Version: m.version, PURL: purl}
	for _, id := range ids {
		var licence bomLicence
		licence.Licence.ID = id
		c.Licences = append(c.Licences, licence)
	}
	return c
}

// serial is a UUID of version 8 (RFC 9562) made of a hash.
func serial(data []byte) string {
	h := sha256.Sum256(data)
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
