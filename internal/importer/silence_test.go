package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/rulefile"
)

// told is a file with something that changes what its limits mean, and what the import says
// of it. Texts of notes begin with their line.
type told struct {
	name  string
	text  string
	notes []string
	// rules stand in what is written, and never do not.
	rules, never []string
}

func (c *told) check(t *testing.T, source Source) {
	t.Helper()
	result, err := Import(source, rulefile.File{Name: "f", Data: []byte(c.text)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var notes strings.Builder
	for _, n := range result.Notes {
		fmt.Fprintf(&notes, "\n%d elsewhere=%t %s", n.Line, n.Elsewhere, n.Text())
	}
	for _, want := range c.notes {
		if !strings.Contains(notes.String(), "\n"+want) {
			t.Errorf("no note %q among%s", want, notes.String())
		}
	}
	if len(c.notes) == 0 && len(result.Notes) > 0 {
		t.Errorf("notes of what needs none:%s", notes.String())
	}
	_, written, _ := strings.Cut(string(result.Rules), "\ndomain: ")
	for _, want := range c.rules {
		if !strings.Contains(written, want) {
			t.Errorf("no %q in\n%s", want, written)
		}
	}
	for _, bad := range c.never {
		if strings.Contains(written, bad) {
			t.Errorf("%q in\n%s", bad, written)
		}
	}
}

func checkTold(t *testing.T, source Source, cases []told) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(t, source) })
	}
}

const (
	kongHead = "_format_version: \"3.0\"\n"
	// kongLimit is a plugin that is carried over whole, so that there are rules to look at.
	kongLimit = kongHead + "plugins:\n- name: rate-limiting\n  config: {hour: 77, limit_by: ip}\n"
)

// kongOne is a file with one plugin for a service, and keys beside its config, from line 9.
func kongOne(keys string) string {
	return kongLimit + "- name: rate-limiting\n  service: a\n  config: {minute: 5, limit_by: ip}\n" + keys
}

func TestKongTellsOfOtherPlugins(t *testing.T) {
	cases := []told{
		{name: "those that come with Kong and do not limit", text: kongLimit + "- name: key-auth\n- name: cors\n- name: prometheus\n"},
		{name: "without a name", text: kongLimit + "- config: {minute: 1}\n", notes: []string{"5 elsewhere=false plugins: one without a name"}},
		{name: "no mapping", text: kongLimit + "- rate-limiting\n", notes: []string{"5 elsewhere=false plugins: one without a name"}},
		{name: "of a group", text: kongLimit + "consumer_groups:\n- name: gold\n  plugins:\n  - {name: rate-limiting, config: {minute: 1}}\n", notes: []string{"8 elsewhere=false rate-limiting: plugins of consumer groups"}},
		{name: "in another place", text: kongLimit + "upstreams:\n- name: u\n  plugins:\n  - {name: rate-limiting, config: {minute: 1}}\n", notes: []string{"8 elsewhere=false rate-limiting: a plugin in this place"}},
	}
	for _, name := range []string{"graphql-rate-limiting-advanced", "rate-limiting-advanced", "response-ratelimiting", "ai-rate-limiting-advanced", "request-size-limiting", "websocket-size-limit", "service-protection", "Throttle", "team-quota"} {
		cases = append(cases, told{name: name, text: kongLimit + "- name: " + name + "\n", notes: []string{"5 elsewhere=false " + name + ": only the plugin"}})
	}
	cases = append(cases, told{name: "of somebody else", text: kongLimit + "- name: fair-share\n", notes: []string{"5 elsewhere=false fair-share: the plugin is not known here"}})
	checkTold(t, Kong, cases)
}

func TestKongTellsWhenAPluginActs(t *testing.T) {
	checkTold(t, Kong, []told{
		{name: "what does not matter", text: kongOne("  tags: [a]\n  id: x\n  instance_name: y\n  enabled: true\n  protocols: [grpc, grpcs, http, https]\n  ordering: null\n"), rules: []string{"a.per.minute"}},
		{name: "condition", text: kongOne("  condition: x\n"), notes: []string{"8 elsewhere=false rate-limiting: it acts under a condition"}, never: []string{"a.per.minute"}},
		{name: "protocols", text: kongOne("  protocols: [grpc]\n"), notes: []string{"8 elsewhere=false protocols: "}, rules: []string{"a.per.minute"}},
		{name: "ordering", text: kongOne("  ordering: {before: {access: [key-auth]}}\n"), notes: []string{"8 elsewhere=false ordering: "}},
		{name: "a shared configuration", text: kongOne("  _config: shared\n"), notes: []string{"8 elsewhere=false _config: "}},
		{name: "any other", text: kongOne("  run_on: first\n"), notes: []string{"8 elsewhere=false run_on: the key is not known"}},
		{name: "for what cannot be read", text: kongLimit + "- name: rate-limiting\n  service: {host: a}\n  config: {minute: 5}\n", notes: []string{"5 elsewhere=false rate-limiting: what it is for is not read"}, never: []string{"per.minute"}},
		{name: "for a service by its id", text: kongLimit + "- name: rate-limiting\n  service: {id: 12ab}\n  config: {minute: 5, limit_by: ip}\nservices:\n- {id: 12ab, name: shop}\n", rules: []string{"value: shop", "shop.per.minute"}, never: []string{"12ab"}},
	})
}

func TestKongTellsWhatIsOff(t *testing.T) {
	var cases []told
	for _, word := range []string{"false", "no", "No", "OFF", "off"} {
		cases = append(cases,
			told{name: "plugin " + word, text: kongOne("  enabled: " + word + "\n"), notes: []string{"5 elsewhere=false rate-limiting: the plugin is not enabled"}, never: []string{"a.per.minute"}},
			told{name: "service " + word, text: kongOne("services:\n- {name: a, enabled: " + word + "}\n"), notes: []string{"5 elsewhere=false rate-limiting: a of services is not enabled"}, never: []string{"a.per.minute"}})
	}
	checkTold(t, Kong, append(cases,
		told{name: "on", text: kongOne("  enabled: yes\nservices:\n- {name: a, enabled: On}\n"), rules: []string{"a.per.minute"}},
		told{name: "in quotes", text: kongOne("  enabled: \"no\"\n"), notes: []string{"8 elsewhere=false enabled: no: it is neither true nor false"}, rules: []string{"a.per.minute"}},
		told{name: "route", text: kongLimit + "routes:\n- name: r\n  enabled: off\n  plugins:\n  - {name: rate-limiting, config: {minute: 5}}\n", notes: []string{"9 elsewhere=false rate-limiting: r of routes is not enabled"}, never: []string{"per.minute"}},
		told{name: "route that names its service", text: kongLimit + "services:\n- {name: a, id: 12ab, enabled: no}\nroutes:\n- name: r\n  service: {id: 12ab}\n  plugins:\n  - {name: rate-limiting, config: {minute: 5}}\n", notes: []string{"11 elsewhere=false rate-limiting: a of services is not enabled"}, never: []string{"per.minute"}},
		told{name: "route of a service that is not read", text: kongLimit + "routes:\n- name: r\n  service: [a]\n  plugins:\n  - {name: rate-limiting, config: {minute: 5}}\n", notes: []string{"6 elsewhere=false routes: the service of the route is not read"}},
		told{name: "route of a service", text: kongLimit + "services:\n- name: a\n  enabled: no\n  routes:\n  - name: r\n    plugins:\n    - {name: rate-limiting, config: {minute: 5}}\n", notes: []string{"11 elsewhere=false rate-limiting: a of services is not enabled"}, never: []string{"per.minute"}},
	))
}

func TestKongTellsOfItsConfig(t *testing.T) {
	one := func(config string) string {
		return kongLimit + "- name: rate-limiting\n  service: a\n  config: {limit_by: ip, " + config + "}\n"
	}
	closed, open := []string{"failure_mode: closed"}, []string{"failure_mode"}
	checkTold(t, Kong, []told{
		{name: "fault_tolerant no", text: one("minute: 5, fault_tolerant: no"), rules: closed},
		{name: "fault_tolerant Off", text: one("minute: 5, fault_tolerant: Off"), rules: closed},
		{name: "fault_tolerant yes", text: one("minute: 5, fault_tolerant: yes"), never: open},
		{name: "fault_tolerant text", text: one("minute: 5, fault_tolerant: \"no\""), notes: []string{"7 elsewhere=false fault_tolerant: no: it is neither"}, never: open},
		{name: "hide_client_headers", text: one("minute: 5, hide_client_headers: on"), rules: []string{"headers: \"off\""}},
		{name: "octal", text: one("minute: 5, hour: 010"), notes: []string{"7 elsewhere=false hour: 010: it is no whole number"}, never: []string{"requests_per_unit: 10,"}},
		{name: "text", text: one("minute: 5, hour: \"10\""), notes: []string{"7 elsewhere=false hour: 10: it is no whole number"}},
		{name: "zero", text: one("minute: 5, hour: 0"), notes: []string{"7 elsewhere=false hour: 0: it is no whole number of requests above 0"}},
		{name: "as a float", text: one("minute: 5.0"), rules: []string{"requests_per_unit: 5,"}},
		{name: "limit_by a list", text: kongLimit + "- name: rate-limiting\n  config: {limit_by: [ip], minute: 5}\n", notes: []string{"6 elsewhere=false limit_by:"}, never: []string{"per.minute"}},
	})
}

func TestKongTellsOfShapes(t *testing.T) {
	plugin := "{name: rate-limiting, config: {minute: 5}}"
	checkTold(t, Kong, []told{
		{name: "plugins as a mapping", text: kongLimit + "services:\n- name: a\n  plugins: " + plugin + "\n", notes: []string{"7 elsewhere=false plugins: it is no list"}},
		{name: "services as a mapping", text: kongLimit + "services:\n  name: a\n  plugins: [" + plugin + "]\n", notes: []string{"6 elsewhere=false services: it is no list", "7 elsewhere=false rate-limiting: a plugin in this place"}},
		{name: "a document that is a list", text: kongLimit + "---\n- " + plugin + "\n", notes: []string{"6 elsewhere=false a document: it is no mapping"}},
		{name: "a route without a name", text: kongLimit + "routes:\n- paths: [/]\n  plugins: [" + plugin + "]\n", notes: []string{"6 elsewhere=false routes: one without a name: give it a name, or have requests carry \"line-6\""}},
	})
}

// TestKongReplacesWhatIsWritten: a limit takes the place of those that are in the file alone.
func TestKongReplacesWhatIsWritten(t *testing.T) {
	c := told{
		text: kongHead + "plugins:\n- {name: rate-limiting, config: {minute: 9, limit_by: ip}}\n- {name: rate-limiting, config: {minute: 3, limit_by: ip}}\n" +
			"- {name: rate-limiting, service: a, config: {minute: 1, limit_by: ip}}\n",
		notes: []string{"4 elsewhere=false rate-limiting: another plugin limits"},
		rules: []string{"replaces: [{name: per.minute}]"},
	}
	c.check(t, Kong)
}

// TestKongRanks: the order in which Kong thinks of plugins, the most specific one last.
func TestKongRanks(t *testing.T) {
	ordered := []kongPlugin{
		{}, {service: "s"}, {route: "r"}, {consumer: "c"}, {route: "r", service: "s"}, {consumer: "c", service: "s"}, {consumer: "c", route: "r"},
		{consumer: "c", route: "r", service: "s"},
	}
	for i := range ordered {
		if got := ordered[i].rank(); got != i {
			t.Errorf("%+v has the rank %d, want %d", ordered[i], got, i)
		}
	}
}

// TestDuplicateKeys: of two equal keys programs take the first or the last; nobody knows
// which was meant.
func TestDuplicateKeys(t *testing.T) {
	for _, c := range []struct {
		source     Source
		text, want string
	}{
		{Kong, kongHead + "plugins:\n- name: rate-limiting\n  config:\n    minute: 5\n    minute: 7\n", "f:6:5: the key 'minute' stands on line 5 already"},
		{Kong, kongHead + "services:\n- name: a\n  <<: {plugins: []}\n", "f:4:3: a merge key stands here"},
		{EnvoyGateway, "kind: BackendTrafficPolicy\nspec:\n  rateLimit: {}\n  rateLimit: {}\n", "f:4:3: the key 'rateLimit' stands on line 3 already"},
		{Express, "{\"limit\": 5,\n\"limit\": 6}", "f:2:1: the key 'limit' stands on line 1 already"},
	} {
		_, err := Import(c.source, rulefile.File{Name: "f", Data: []byte(c.text)}, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s", c.source, c.text, err, c.want)
		}
	}
	// envoyproxy/ratelimit takes the last one, and so does its import, with a note.
	c := told{
		text:  "domain: a\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 1,\n    requests_per_unit: 2}\n",
		notes: []string{"5 elsewhere=false key 'requests_per_unit' stands twice"},
		rules: []string{"requests_per_unit: 2,"},
	}
	c.check(t, EnvoyProxy)
}

func TestExpressTells(t *testing.T) {
	checkTold(t, Express, []told{
		{name: "limit before max", text: `{"limit":100,"max":5}`, notes: []string{"1 elsewhere=true max: 5: limit is the new name"}, rules: []string{"requests_per_unit: 100,"}},
		{name: "max before limit", text: `{"max":5,"limit":100}`, notes: []string{"1 elsewhere=true max: 5: limit is the new name"}, rules: []string{"requests_per_unit: 100,"}},
		{name: "max alone", text: `{"max":7}`, rules: []string{"requests_per_unit: 7,"}},
		{name: "booleans", text: `{"passOnStoreError":true,"legacyHeaders":true,"skipFailedRequests":false,"standardHeaders":false}`, rules: []string{"x_ratelimit: \"on\"", "headers: \"off\""}, never: []string{"failure_mode"}},
		{name: "passOnStoreError", text: `{"passOnStoreError":"yes"}`, notes: []string{"1 elsewhere=false passOnStoreError: yes: it is neither"}, rules: []string{"failure_mode: closed"}},
		{name: "legacyHeaders", text: `{"legacyHeaders":"draft-6"}`, notes: []string{"1 elsewhere=false legacyHeaders: draft-6: it is neither"}, never: []string{"x_ratelimit"}},
		{name: "skipFailedRequests", text: `{"skipFailedRequests":"false"}`, notes: []string{"1 elsewhere=false skipFailedRequests: false: it is neither"}},
		{name: "skipSuccessfulRequests", text: `{"skipSuccessfulRequests":true}`, notes: []string{"1 elsewhere=false skipSuccessfulRequests: true: what is counted"}},
		{name: "standardHeaders", text: `{"standardHeaders":"true"}`, notes: []string{"1 elsewhere=false standardHeaders: true: these headers"}},
		{name: "ipv6Subnet", text: `{"ipv6Subnet":false}`, notes: []string{"1 elsewhere=true ipv6Subnet: false: the identity file says it: {remote_address: {ipv4: 32, ipv6: 128}}"}},
	})
	for _, text := range []string{`{"limit":"100"}`, `{"windowMs":"1000"}`, `{"limit":null}`, `{"windowMs":"1000","limit":100}`, `{"limit":"100","windowMs":1000}`} {
		if _, err := Import(Express, rulefile.File{Name: "f", Data: []byte(text)}, Options{}); err == nil || !strings.Contains(err.Error(), "no limit in it") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEnvoyGatewayTells(t *testing.T) {
	// The rule stands on line 9, after one that is carried over whole.
	policy := func(spec, rule string) string {
		return "kind: BackendTrafficPolicy\nmetadata: {name: p}\nspec:\n  " + spec + "\n  rateLimit:\n    global:\n      rules:\n" +
			"        - {limit: {requests: 77, unit: Day}}\n        - " + rule + "\n"
	}
	target := "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]"
	selected := func(selector string) string {
		return policy(target, "{limit: {requests: 3, unit: Hour}, clientSelectors: ["+selector+"]}")
	}
	three := []string{"requests_per_unit: 3,"}
	checkTold(t, EnvoyGateway, []told{
		{name: "whole", text: selected("{headers: [{name: u, type: Distinct, invert: no}]}"), rules: three},
		{name: "clientSelectors", text: policy(target, "{limit: {requests: 3, unit: Hour}, clientSelectors: {headers: [{name: u, value: a}]}}"), notes: []string{"9 elsewhere=false clientSelectors: it is no list"}, never: three},
		{name: "clientSelectors after a limit that is none", text: policy(target, "{limit: {requests: 3, unit: Fortnight}, clientSelectors: [{headers: [{name: u, value: a}]}]}"), notes: []string{"9 elsewhere=false a rule of"}, never: three},
		{name: "a selector that is a text", text: selected("u"), notes: []string{"9 elsewhere=false clientSelectors: one that is no mapping"}, never: three},
		{name: "headers", text: selected("{headers: {name: u, value: a}}"), notes: []string{"9 elsewhere=false headers: it is no list"}, never: three},
		{name: "methods", text: selected("{methods: {value: GET}}"), notes: []string{"9 elsewhere=false methods: it is no list"}, never: three},
		{name: "invert", text: selected("{headers: [{name: u, value: a, invert: yes}]}"), notes: []string{"9 elsewhere=false u: invert is not"}, never: three},
		{name: "invert as a text", text: selected("{headers: [{name: u, value: a, invert: \"true\"}]}"), notes: []string{"9 elsewhere=false invert: true: it is neither"}, never: three},
		{name: "methods inverted", text: selected("{methods: [{value: GET, invert: on}]}"), notes: []string{"9 elsewhere=false methods: invert"}, never: three},
		{name: "network inverted", text: selected("{sourceCIDR: {value: 10.0.0.0/8, invert: yes}}"), notes: []string{"9 elsewhere=false sourceCIDR: invert"}, never: three},
		{name: "network of a new type", text: selected("{sourceCIDR: {value: 10.0.0.0/8, type: Any}}"), notes: []string{"9 elsewhere=false sourceCIDR: a match of type Any"}, never: three},
		{name: "no value", text: selected("{headers: [{name: u}]}"), notes: []string{"9 elsewhere=false u: it has no value"}, never: three},
		{name: "a value that is a list", text: selected("{headers: [{name: u, value: [a, b]}]}"), notes: []string{"9 elsewhere=false value: it is no text"}, never: three},
		{name: "an empty value", text: selected("{headers: [{name: u, value: \"\"}]}"), notes: []string{"9 elsewhere=false u: it has no value"}, never: three},
		{name: "a name that is a list", text: selected("{headers: [{name: [u], value: a}]}"), notes: []string{"9 elsewhere=false a match: it has no name"}, never: three},
		{name: "a type that is a list", text: selected("{headers: [{name: u, type: [Distinct], value: a}]}"), notes: []string{"9 elsewhere=false type: it is no text"}, never: three},
		{name: "Distinct with a value", text: selected("{headers: [{name: u, type: Distinct, value: a}]}"), notes: []string{"9 elsewhere=false u: it has a value"}, never: three},
		{name: "headers that are texts", text: selected("{headers: [u]}"), notes: []string{"9 elsewhere=false a match: it has no name"}, never: three},
		{name: "methods that are texts", text: selected("{methods: [GET]}"), notes: []string{"9 elsewhere=false methods: one that is no mapping is not read: write {value: GET}"}, never: three},
		{name: "a method that is a list", text: selected("{methods: [{value: GET}, {value: [PUT]}]}"), notes: []string{"9 elsewhere=false value: it is no text"}, never: three},
		{name: "a method without a value", text: selected("{methods: [{}]}"), notes: []string{"9 elsewhere=false methods: one has no value"}, never: three},
		{name: "a path that is a text", text: selected("{path: /v1}"), notes: []string{"9 elsewhere=false path: it has no value"}, never: three},
		{name: "a path without a type", text: selected("{path: {value: /v1}}"), rules: []string{"value_prefix: \"/v1\""}},
		{name: "a network of two types", text: selected("{sourceCIDR: {value: 10.0.0.0/8, type: [Distinct]}}"), notes: []string{"9 elsewhere=false type: it is no text"}, never: three},
		{name: "networks", text: selected("{sourceCIDR: {value: [10.0.0.0/8]}}"), notes: []string{"9 elsewhere=false value: it is no text"}, never: three},
		{name: "a key of a match", text: selected("{headers: [{name: u, value: a, ignoreCase: true}]}"), notes: []string{"9 elsewhere=false ignoreCase: the key is not known"}},
		{name: "a key of a limit", text: policy(target, "{limit: {requests: 3, unit: Hour, burst: 9}}"), notes: []string{"9 elsewhere=false burst: the key is not known"}},
		{name: "octal", text: policy(target, "{limit: {requests: 010, unit: Hour}}"), notes: []string{"9 elsewhere=false a rule of default/p: its limit is no number"}, never: []string{"requests_per_unit: 10,"}},
		{name: "shadowMode", text: policy(target, "{limit: {requests: 3, unit: Hour}, shadowMode: Yes, shared: true}"), rules: []string{"shadow_mode: true", "key: policy"}},
		{name: "shared as a text", text: policy(target, "{limit: {requests: 3, unit: Hour}, shared: \"true\"}"), notes: []string{"9 elsewhere=false shared: true: it is neither"}},
		{name: "targetRefs", text: policy(target, "{}") + "---\n" + policy("targetRefs: {kind: HTTPRoute, name: r}", "{}"), notes: []string{"14 elsewhere=false targetRefs: it is no list", "18 elsewhere=false a rule of default/p: its targets are not read"}, never: []string{"key: policy"}},
		{name: "no name of a target", text: policy(target, "{}") + "---\n" + policy("targetRef: {kind: HTTPRoute}", "{}"), notes: []string{"14 elsewhere=false a target: it has no name"}, never: []string{"key: policy"}},
		{name: "targetRefs of a shared limit", text: policy("targetRefs: {kind: HTTPRoute, name: r}", "{limit: {requests: 3, unit: Hour}, shared: true}"), notes: []string{"4 elsewhere=false targetRefs: it is no list", "8 elsewhere=false a rule of default/p: its targets are not read"}, rules: []string{"key: policy", "requests_per_unit: 3,"}},
		{name: "rules", text: policy(target, "{}") + "---\nkind: BackendTrafficPolicy\nspec: {rateLimit: {local: {rules: {limit: {requests: 3, unit: Hour}}}}}\n", notes: []string{"12 elsewhere=false rules: it is no list"}},
		{name: "a scope", text: policy(target, "{}") + "---\nkind: BackendTrafficPolicy\nspec: {rateLimit: {local: [{limit: {requests: 3, unit: Hour}}]}}\n", notes: []string{"12 elsewhere=false rateLimit: a scope that is no mapping"}},
		{name: "rateLimit", text: policy(target, "{}") + "---\nkind: BackendTrafficPolicy\nspec: {rateLimit: [{local: {}}]}\n", notes: []string{"12 elsewhere=false rateLimit: it is no mapping"}},
		{name: "items", text: policy(target, "{}") + "---\nkind: List\nitems: {kind: BackendTrafficPolicy}\n", notes: []string{"12 elsewhere=false items: it is no list"}},
	})
}

func TestEnvoyGatewayTellsOfTypes(t *testing.T) {
	// The policy under test begins on line 2, after one that is carried over whole.
	const whole = "{kind: BackendTrafficPolicy, metadata: {name: w}, spec: {targetRefs: [{kind: HTTPRoute, name: w}], rateLimit: {global: {rules: [{limit: {requests: 77, unit: Day}}]}}}}\n---\n"
	policy := func(limits string) string {
		return whole + "kind: BackendTrafficPolicy\nmetadata: {name: p}\nspec:\n  targetRefs: [{kind: HTTPRoute, name: r}]\n  rateLimit:\n    " + limits + "\n"
	}
	rules := func(n string) string { return "{rules: [{limit: {requests: " + n + ", unit: Hour}}]}" }
	three, nine := []string{"requests_per_unit: 3,"}, []string{"requests_per_unit: 9,"}
	checkTold(t, EnvoyGateway, []told{
		{name: "no type", text: policy("global: " + rules("3")), rules: three},
		{name: "Global", text: policy("type: Global\n    global: " + rules("3")), rules: three},
		{name: "Local", text: policy("type: Local\n    local: " + rules("3") + "\n    global: null"), rules: append(three, "local_share: whole")},
		{name: "Local beside global rules", text: policy("type: Local\n    global: " + rules("3")), notes: []string{"9 elsewhere=false global: type: Local leaves it out there", "8 elsewhere=false type: Local: it has no limits of this type"}, never: three},
		{name: "Global beside local rules", text: policy("type: Global\n    global: " + rules("3") + "\n    local: " + rules("9")), notes: []string{"10 elsewhere=false local: type: Global leaves it out there"}, rules: three, never: nine},
		{name: "no type and both", text: policy("global: " + rules("3") + "\n    local: {rules: [{limit: {requests: 9, unit: Hour}, clientSelectors: [{methods: [{value: GET}]}]}]}"), rules: append(three, nine...)},
		{name: "another type", text: policy("type: global\n    global: " + rules("3")), notes: []string{"8 elsewhere=false type: global: it is neither Global nor Local"}, never: three},
		{name: "a list of types", text: policy("type: [Global]\n    global: " + rules("3")), notes: []string{"8 elsewhere=false type: it is no text"}, never: three},
		{name: "shadow mode of local rules", text: policy("local: {rules: [{shadowMode: true, limit: {requests: 3, unit: Hour}}]}"), notes: []string{"8 elsewhere=false shadowMode: there it is for global rules alone"}, rules: three, never: []string{"shadow_mode"}},
		{name: "a route of another kind with the same name", text: strings.Replace(policy("global: "+rules("3")), "name: r}]", "name: r}, {kind: GRPCRoute, name: r}]", 1), notes: []string{"6 elsewhere=false a target: another one has the name r"}, rules: append(three, "rate_limit: {requests_per_unit: 3")},
		{name: "a target of another kind", text: strings.Replace(policy("global: "+rules("3")), "{kind: HTTPRoute, name: r}", "{kind: ListenerSet, name: r}", 1), notes: []string{"6 elsewhere=false a target: a target of kind 'ListenerSet'"}, never: three},
		{name: "a section that is a list", text: strings.Replace(policy("global: "+rules("3")), "name: r}", "name: r, sectionName: [a]}", 1), notes: []string{"6 elsewhere=false sectionName: it is no text"}, never: three},
		{name: "another policy for the same name", text: strings.Replace(policy("global: "+rules("3")), "name: r}", "name: w}", 1), notes: []string{"8 elsewhere=false a rule of default/p: default/w limits what has this name already"}, never: three},
		{name: "a specification that is a list", text: whole + "kind: BackendTrafficPolicy\nspec: [{rateLimit: {}}]\n", notes: []string{"4 elsewhere=false spec: it is no mapping"}},
	})
}

func TestEnvoyGatewayTellsOfKinds(t *testing.T) {
	const body = "metadata: {name: w}, spec: {targetRefs: [{kind: HTTPRoute, name: w}], rateLimit: {global: {rules: [{limit: {requests: 77, unit: Day}}]}}}}\n"
	const whole = "{kind: BackendTrafficPolicy, " + body + "---\n"
	alone := func(kind string) []string {
		return []string{"3 elsewhere=false kind: " + kind + ": limits are read of the kind BackendTrafficPolicy alone"}
	}
	day := []string{"requests_per_unit: 77,"}
	checkTold(t, EnvoyGateway, []told{
		{name: "list of policies", text: "kind: BackendTrafficPolicyList\nitems:\n- {kind: BackendTrafficPolicy, " + body, rules: day},
		{name: "list of policies that do not say their kind", text: "kind: BackendTrafficPolicyList\nitems:\n- {" + body, rules: day},
		{name: "list of lists", text: "kind: List\nitems:\n- kind: List\n  items:\n  - {kind: BackendTrafficPolicy, " + body, rules: day},
		{name: "list in a list of policies", text: "kind: List\nitems:\n- kind: BackendTrafficPolicyList\n  items:\n  - {" + body, rules: day},
		{name: "items that are texts", text: whole + "kind: List\nitems: [a]\n", notes: []string{"4 elsewhere=false items: one that is no mapping"}},
		{name: "the same in other letters", text: whole + "{kind: backendtrafficpolicy}\n", notes: alone("backendtrafficpolicy")},
		{name: "no kind", text: whole + "{" + body, notes: []string{"3 elsewhere=false kind:: limits are read of"}},
		{name: "a kind that is a list", text: whole + "{kind: [BackendTrafficPolicy], " + body, notes: []string{"3 elsewhere=false kind: it is no text"}},
		{name: "another kind with limits", text: whole + "{kind: BackendPolicy, spec: {ratelimits: []}}\n", notes: alone("BackendPolicy")},
		{name: "a kind of limits", text: whole + "{kind: RateLimitFilter, spec: {}}\n", notes: alone("RateLimitFilter")},
		{name: "a patch with limits", text: whole + "{kind: EnvoyPatchPolicy, spec: {jsonPatches: [{operation: {value: {name: envoy.filters.http.local_ratelimit}}}]}}\n", notes: alone("EnvoyPatchPolicy")},
		{name: "a name", text: whole + "{kind: HTTPRoute, metadata: {name: ratelimit, labels: {example.com/rate-limit: a}}}\n", notes: []string{"3 elsewhere=true kind: HTTPRoute: it has no limits"}},
		{name: "the gateway", text: whole + "{kind: EnvoyGateway, rateLimit: {backend: {type: Redis}}}\n", notes: []string{"3 elsewhere=true kind: EnvoyGateway: it says how the gateway runs"}},
		{name: "limits of connections", text: whole + "{kind: ClientTrafficPolicy, spec: {connection: {connectionLimit: {value: 5}}}}\n", notes: []string{"3 elsewhere=true kind: ClientTrafficPolicy: it bounds connections"}},
	})
}

func TestNginxTells(t *testing.T) {
	// What is added stands on line 4, in the block http.
	file := func(line string) string {
		return "http {\n limit_req_zone $remote_addr zone=a:1m rate=1r/s;\n limit_req zone=a;\n " + line + "\n}\n"
	}
	checkTold(t, Nginx, []told{
		{name: "whole", text: file("limit_req_status 429;")},
		{name: "dry run", text: file("limit_req_dry_run yes;"), notes: []string{"4 elsewhere=false limit_req_dry_run yes: it is neither on nor off"}},
		{name: "dry run of connections", text: file("limit_conn_dry_run on;\n limit_conn_zone $host zone=c:1m;\n limit_conn c 5;"), rules: []string{"requests_per_unit: 1, unit: second, algorithm: leaky_bucket}\n- key: host\n  concurrency: 5\n  shadow_mode: true\n"}},
		{name: "dry run of requests", text: file("limit_req_dry_run ON;\n limit_conn_zone $host zone=c:1m;\n limit_conn c 5;"), rules: []string{"algorithm: leaky_bucket}\n  shadow_mode: true\n- key: host\n  concurrency: 5\n"}, never: []string{"concurrency: 5\n  shadow_mode"}},
		{name: "dry run of both", text: file("limit_req_dry_run on; limit_conn_dry_run on;\n limit_conn_zone $remote_addr zone=c:1m;\n limit_conn c 5;"), rules: []string{"concurrency: 5\n  shadow_mode: true"}},
		{name: "dry run of one of two on a key", text: file("limit_conn_dry_run on;\n limit_conn_zone $remote_addr zone=c:1m;\n limit_conn c 5;"), notes: []string{"6 elsewhere=false limit: it is in dry run, and a limit on the same key is not"}, rules: []string{"requests_per_unit: 1,"}, never: []string{"shadow_mode", "concurrency"}},
		{name: "dry run of one of two on a key, the first", text: file("limit_req_dry_run on;\n limit_conn_zone $remote_addr zone=c:1m;\n limit_conn c 5;\n server { location /a { limit_req zone=b; } }\n limit_req_zone $host zone=b:1m rate=3r/s;"),
			notes: []string{"3 elsewhere=false limit: it is in dry run"}, rules: []string{"concurrency: 5\n", "requests_per_unit: 3,"}, never: []string{"concurrency: 5\n    shadow_mode", "requests_per_unit: 1,", "replaces"}},
		{name: "dry run of a limit around it", text: file("server { location /a {\n limit_req_dry_run on; } }"), notes: []string{"5 elsewhere=false limit_req_dry_run on: a limit of the scope around it keeps its mode here"}, never: []string{"shadow_mode"}},
		{name: "no dry run of a limit around it", text: file("limit_req_dry_run on;\n server {\n limit_req_dry_run off; }"), notes: []string{"6 elsewhere=false limit_req_dry_run off: a limit of the scope around it keeps its mode here"}, rules: []string{"shadow_mode"}},
		{name: "dry run of a named location", text: file("server { location @a {\n limit_req_dry_run on; } }"), notes: []string{"5 elsewhere=false limit_req_dry_run on: a limit of the scope around it"}},
		{name: "dry run of a limit of its own", text: file("server { location /a { limit_req zone=a burst=3 nodelay; limit_req_dry_run on; limit_conn_dry_run on; } }"), notes: []string{"4 elsewhere=false limit_req zone=a burst=3 nodelay: it counts together"}, rules: []string{"shadow_mode"}},
		{name: "other limits", text: file("limit_speed_zone one $remote_addr 1m;"), notes: []string{"4 elsewhere=false limit_speed_zone one $remote_addr 1m: the directive is not known"}},
		{name: "a zone again", text: file("limit_req_zone $remote_addr zone=a:1m rate=9r/s;"), notes: []string{"4 elsewhere=false limit_req_zone $remote_addr zone=a:1m rate=9r/s: a zone of this name is on line 2 already"}, rules: []string{"requests_per_unit: 1,"}},
		{name: "a burst again", text: file("limit_req zone=a burst=5 burst=9;"), notes: []string{"4 elsewhere=false limit_req zone=a burst=5 burst=9: 'burst' stands in it twice"}},
		{name: "max_conns", text: file("upstream u { server b max_conns=4; }"), notes: []string{"4 elsewhere=true server b max_conns=4: it bounds connections"}},
		{name: "streams", text: file("") + "stream { limit_conn_zone $remote_addr zone=c:1m; server { limit_conn c 4; } }\n", notes: []string{"6 elsewhere=false stream: limits of connections"}, never: []string{"concurrency"}},
	})
}

func TestNginxTellsServersApart(t *testing.T) {
	file := func(server string) string {
		return "http {\n limit_req_zone $remote_addr zone=a:1m rate=1r/s;\n server { server_name a.com; limit_req zone=a; }\n " + server + "\n}\n"
	}
	host, alone := []string{"value: a.com\n", "requests_per_unit: 1,"}, []string{"key: host"}
	checkTold(t, Nginx, []told{
		{name: "one", text: file(""), never: alone},
		{name: "one without limits", text: file("server { server_name b.com; proxy_pass http://b; }"), rules: host},
		{name: "one that redirects", text: file("server { server_name a.com; return 301 https://$host; }"), never: alone},
		{name: "one that redirects in a location", text: file("server { server_name a.com; location / { return 301 https://$host; } }"), never: alone},
		{name: "one of an upstream", text: file("upstream u { server b.com; }"), never: alone},
		{name: "one of streams", text: file("") + "stream { server { proxy_pass b; } }\n", never: alone},
		{name: "one of the same name", text: file("server { server_name A.com; proxy_pass http://b; }"), notes: []string{"3 elsewhere=false server_name a.com: the server on line 4 has this name too"}, rules: host},
		{name: "a pattern", text: strings.Replace(file("server { proxy_pass http://b; }\n limit_req zone=a;"), "a.com", "*.a.com", 1), notes: []string{"3 elsewhere=false server_name *.a.com: the name is a pattern"}},
		{name: "Lua", text: file("access_by_lua_file limit.lua;"), notes: []string{"4 elsewhere=false access_by_lua_file: whether a function of Lua limits"}},
		{name: "Lua in a location", text: file("server { return 404; location /a {\n rewrite_by_lua_file limit.lua; } }"), notes: []string{"5 elsewhere=false rewrite_by_lua_file: whether a function of Lua limits"}},
		{name: "Lua that answers", text: file("server { return 404; location /a { content_by_lua_file a.lua; } }")},
	})
}

func TestHAProxyTells(t *testing.T) {
	// What is added stands on line 5, in the frontend.
	file := func(line string) string {
		return "frontend a\n stick-table type ip size 1m store http_req_rate(10s)\n http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 7 }\n " + line + "\n"
	}
	note := func(line, why string) []string { return []string{"5 elsewhere=false " + line + ": " + why} }
	var cases []told
	for _, sample := range []string{"src,table_conn_rate(t)", "src,in_table(t)", "fe_req_rate", "be_conn(b)", "queue(b)", "srv_sess_rate(b/s)", "sc12_http_req_rate"} {
		line := "http-request deny if { " + sample + " gt 5 }"
		cases = append(cases, told{name: sample, text: file(line), notes: note(line, "")})
	}
	checkTold(t, HAProxy, append(cases,
		told{name: "whole", text: file("timeout queue 5s\n balance source\n http-request return status 200 if { path /health }")},
		told{name: "returns no refusal", text: file("http-request return status 200 if { sc_http_req_rate(0) gt 3 }"), notes: note("http-request return status 200 if { sc_http_req_rate(0) gt 3 }", "what it returns is no refusal"), never: []string{"requests_per_unit: 3,"}},
		told{name: "a table again", text: file("stick-table type ip size 1m store http_req_rate(99s)"), notes: note("stick-table type ip size 1m store http_req_rate(99s)", "\"a\" has a table on line 2 already"), rules: []string{"window: \"10s\""}},
		told{name: "under a condition", text: file(".if defined(X)\n .endif"), notes: note(".if defined(X)", "what stands under it")},
		told{name: "maxconn", text: file("maxconn 9"), notes: []string{"5 elsewhere=true maxconn 9: it bounds connections"}},
	))
}

func TestHAProxyTellsWhoIsPassed(t *testing.T) {
	// What is added stands on line 3, before what counts, in the frontend.
	file := func(line string) string {
		return "frontend a\n stick-table type ip size 1m store http_req_rate(10s)\n " + line + "\n http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 7 }\n"
	}
	const limited, answered = ": requests that it lets pass are not limited there", ": what it answers is not counted there"
	var cases []told
	for _, line := range []string{"http-request allow if { src 10.0.0.0/8 }", "http-request allow"} {
		cases = append(cases, told{name: line, text: file(line), notes: []string{"3 elsewhere=false " + line + limited}, rules: []string{"requests_per_unit: 7,"}})
	}
	for _, line := range []string{"http-request auth unless { http_auth(u) }", "http-request redirect scheme https", "http-request return status 200 if { path /health }", "http-request use-service prometheus-exporter if { path /metrics }"} {
		cases = append(cases, told{name: line, text: file(line), notes: []string{"3 elsewhere=true " + line + answered}})
	}
	for line, why := range map[string]string{
		"http-request lua.ratelimit 50":                             "whether a function of Lua limits",
		"tcp-request content lua.ratelimit":                         "whether a function of Lua limits",
		"http-request send-spoe-group e g":                          "whether the agent that it asks limits",
		"http-request set-bandwidth-limit x":                        "it limits bytes",
		"filter spoe engine e config f":                             "whether the filter limits",
		"filter bwlim-out x":                                        "it limits bytes",
		"http-request allow if { src,table_http_req_rate(a) lt 3 }": "of what is done by a counter",
	} {
		cases = append(cases, told{name: line, text: file(line), notes: []string{"3 elsewhere=false " + line + ": " + why}})
	}
	named := "defaults d\n http-request allow if { src 10.0.0.0/8 }\ndefaults e\n http-request redirect scheme https\n"
	checkTold(t, HAProxy, append(cases,
		told{name: "set-src", text: file("http-request set-src hdr(x-real-ip)"), notes: []string{"3 elsewhere=true http-request set-src hdr(x-real-ip): it says what the address"}},
		told{name: "what changes nothing", text: file("filter compression\n http-request set-header x y\n tcp-request connection accept\n tcp-request content accept if HTTP\n http-request deny if { path /private }")},
		told{name: "between counting and denying", text: "frontend a\n stick-table type ip size 1m store http_req_rate(10s)\n tcp-request content track-sc0 src\n tcp-request content accept\n http-request allow if LOCALHOST\n http-request deny if { sc_http_req_rate(0) gt 7 }\n",
			notes: []string{"5 elsewhere=false http-request allow if LOCALHOST" + limited}},
		told{name: "before counting, in its list", text: "frontend a\n stick-table type ip size 1m store http_req_rate(10s)\n tcp-request connection accept if LOCALHOST\n tcp-request connection track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 7 }\n",
			notes: []string{"3 elsewhere=false tcp-request connection accept if LOCALHOST" + limited}},
		told{name: "after it", text: file("http-request set-header x y") + " http-request allow\n http-request redirect scheme https\n"},
		told{name: "in the last defaults", text: named + file(""), notes: []string{"4 elsewhere=true http-request redirect scheme https" + answered}},
		told{name: "in defaults by their name", text: named + strings.Replace(file(""), "a\n", "a from d\n", 1), notes: []string{"2 elsewhere=false http-request allow if { src 10.0.0.0/8 }" + limited}},
		told{name: "in another proxy", text: "backend b\n http-request allow\n" + file("")},
		told{name: "requests of one frontend", text: "frontend http\n" + file(""), notes: []string{"6 elsewhere=true http-request deny if { sc_http_req_rate(0) gt 7 }: it is for requests of frontend 'a' alone"}},
		told{name: "requests of a backend", text: strings.Replace(file(""), "frontend", "backend", 1), notes: []string{"5 elsewhere=true http-request deny if { sc_http_req_rate(0) gt 7 }: it is for requests of backend 'a' alone"}},
	))
}

// TestEnvoyGatewayBoundsSelectors: a rule of a policy becomes so many descriptors at most, and one
// more is not left out in silence.
func TestEnvoyGatewayBoundsSelectors(t *testing.T) {
	for n, carried := range map[int]bool{maxWays: true, maxWays + 1: false} {
		text := "kind: BackendTrafficPolicy\nmetadata: {name: p}\nspec:\n  targetRefs: [{kind: HTTPRoute, name: r}]\n  rateLimit:\n    global:\n      rules:\n" +
			"        - {limit: {requests: 77, unit: Day}}\n        - limit: {requests: 3, unit: Hour}\n          clientSelectors:\n"
		for i := range n {
			text += fmt.Sprintf("            - headers: [{name: u, value: v%d}]\n", i)
		}
		result, err := Import(EnvoyGateway, rulefile.File{Name: "f", Data: []byte(text)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(result.Notes, func(n Note) bool {
			return n.Line == 9 && !n.Elsewhere && strings.Contains(n.Text(), "it has more than 1000 targets and selectors")
		})
		if got := strings.Count(string(result.Rules), "requests_per_unit: 3,"); told == carried || carried && got != n || !carried && got != 0 {
			t.Errorf("%d selectors: %d descriptors, told of it: %t", n, got, told)
		}
	}
}
