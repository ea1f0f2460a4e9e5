package main

import (
	"encoding/json"
	"io"
)

// PluginName is what Kong calls the plugin by.
const PluginName = "headgate"

// version is that of the plugin, which Kong shows.
const version = "0.1.0"

// priority puts the plugin after those that find out who asks, 1000 and more, and beside
// Kong's own limits, 910.
const priority = 905

// setting is an entry of a schema of Kong.
type setting map[string]any

// field is a setting by its name.
type field map[string]setting

// fields are what Kong knows of the settings: types, defaults and bounds. The PDK makes a
// schema by itself, but without the last two.
func fields() []field {
	d := newConfig()
	list := func(value names) setting {
		return setting{"type": "array", "elements": setting{"type": "string"}, "len_max": maxNames, "required": true, "default": value}
	}
	// Kong takes an empty text for none given.
	text := func(value string) setting {
		s := setting{"type": "string", "len_min": 0}
		if value != "" {
			s["default"] = value
		}
		return s
	}
	number := func(value, most int) setting {
		return setting{"type": "integer", "between": []int{1, most}, "required": true, "default": value}
	}
	choice := func(value string, of ...string) setting {
		return setting{"type": "string", "one_of": of, "required": true, "default": value}
	}
	return []field{
		{"url": {"type": "string", "required": true, "default": d.URL}},
		{"timeout_ms": number(d.TimeoutMS, maxTimeoutMS)},
		{"failure_mode": choice(d.FailureMode, failOpen, failClosed)},
		{"connections": number(d.Connections, maxConnections)},
		{"request_headers": list(d.RequestHeaders)},
		{"client_headers": list(d.ClientHeaders)},
		{"upstream_headers": list(d.UpstreamHeaders)},
		{"consumer_header": text(d.ConsumerHeader)},
		{"consumer_by": choice(d.ConsumerBy, byUsername, byCustomID, byID)},
		{"credential_header": text(d.CredentialHeader)},
		{"check_id_header": text(d.CheckIDHeader)},
		{"token": {"type": "string", "encrypted": true, "referenceable": true}},
	}
}

// description is what Kong reads of a plugin server: which plugins it has, and where.
type description struct {
	Protocol   string
	SocketPath string
	Plugins    []plugin
}

type plugin struct {
	Name     string
	Phases   []string
	Version  string
	Priority int
	Schema   any
}

// describeTo writes the description of this plugin server, which listens at socket.
func describeTo(w io.Writer, socket string) error {
	return json.NewEncoder(w).Encode(description{
		Protocol:   "ProtoBuf:1",
		SocketPath: socket,
		Plugins: []plugin{{
			Name: PluginName, Phases: []string{"access"}, Version: version, Priority: priority,
			Schema: map[string]any{
				"name":   PluginName,
				"fields": []any{map[string]any{"config": map[string]any{"type": "record", "fields": fields()}}},
			},
		}},
	})
}
