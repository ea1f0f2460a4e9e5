package main_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Kong/go-pdk/server/kong_plugin_protocol"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// kong stands for Kong: it is a proxy before an application that speaks to the real plugin
// server as Kong does, a frame of four bytes of length before each message. Kong itself
// could not be had.
type kong struct {
	t      *testing.T
	socket string
	// config is what an operator has set, as Kong sends it.
	config string
	// consumer and credential are what plugins that ran before have found.
	consumer   *kong_plugin_protocol.Consumer
	credential *kong_plugin_protocol.AuthenticatedCredential
	proxy      *httputil.ReverseProxy

	mu       sync.Mutex
	instance int32 // 0 before the first start
	logged   []string
}

// newKong starts a proxy before app and returns its HOST:PORT.
func newKong(t *testing.T, k *kong, app string) string {
	t.Helper()
	k.t = t
	to, err := url.Parse(app)
	if err != nil {
		t.Fatal(err)
	}
	k.proxy = httputil.NewSingleHostReverseProxy(to)
	k.proxy.ModifyResponse = func(r *http.Response) error {
		for name, values := range r.Request.Context().Value(setKey{}).(http.Header) {
			r.Header[name] = values
		}
		return nil
	}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// setKey is that of the fields that the plugin has set for the client.
type setKey struct{}

// ServeHTTP has the plugin see a request, and sends it on unless that has answered it.
func (k *kong) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &event{kong: k, request: r, upstream: r.Header.Clone(), set: http.Header{}}
	if err := k.handle(e); err != nil {
		k.log("plugin server: " + err.Error())
		http.Error(w, "kong: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if e.exit != nil {
		for name, values := range headersOf(e.exit.Headers) {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		w.WriteHeader(int(e.exit.Status))
		_, _ = w.Write(e.exit.Body)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), setKey{}, e.set))
	r.Header = e.upstream
	k.proxy.ServeHTTP(w, r)
}

// handle runs the access phase. An instance that the plugin server does not know, because it
// was started anew, is started again, as Kong does.
func (k *kong) handle(e *event) error {
	for range 2 {
		id, err := k.start()
		if err != nil {
			return err
		}
		_, err = k.call(&kong_plugin_protocol.RpcCall{Call: &kong_plugin_protocol.RpcCall_CmdHandleEvent{
			CmdHandleEvent: &kong_plugin_protocol.CmdHandleEvent{InstanceId: id, EventName: "access"},
		}}, e)
		if err == nil || e.asked {
			return err
		}
		k.mu.Lock()
		k.instance = 0
		k.mu.Unlock()
	}
	return errors.New("the plugin server does not know the instance that it has started")
}

// start starts the instance, once.
func (k *kong) start() (int32, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.instance != 0 {
		return k.instance, nil
	}
	got, err := k.call(&kong_plugin_protocol.RpcCall{Call: &kong_plugin_protocol.RpcCall_CmdStartInstance{
		CmdStartInstance: &kong_plugin_protocol.CmdStartInstance{Name: "headgate", Config: []byte(k.config)},
	}}, nil)
	if err != nil {
		return 0, err
	}
	k.instance = got.GetInstanceStatus().GetInstanceId()
	return k.instance, nil
}

// call makes a call by a connection of its own. With an event the plugin server asks back
// until it sends an empty name, or until the plugin has answered the request.
func (k *kong) call(c *kong_plugin_protocol.RpcCall, e *event) (*kong_plugin_protocol.RpcReturn, error) {
	conn, err := net.Dial("unix", k.socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	c.Sequence = 7
	if err := send(conn, c); err != nil {
		return nil, err
	}
	for e != nil {
		name, err := readFrame(conn)
		if err != nil {
			return nil, err
		}
		if len(name) == 0 {
			break
		}
		args, err := readFrame(conn)
		if err != nil {
			return nil, err
		}
		e.asked = true
		reply, err := e.answer(string(name), args)
		if err != nil {
			return nil, err
		}
		if err := writeFrame(conn, reply); err != nil {
			return nil, err
		}
		if e.exit != nil {
			return nil, nil // the plugin hangs up
		}
	}
	data, err := readFrame(conn)
	if err != nil {
		return nil, err
	}
	got := new(kong_plugin_protocol.RpcReturn)
	if err := proto.Unmarshal(data, got); err != nil {
		return nil, err
	}
	if got.Sequence != c.Sequence {
		return nil, fmt.Errorf("answer %d to call %d", got.Sequence, c.Sequence)
	}
	return got, nil
}

func (k *kong) log(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logged = append(k.logged, line)
}

func (k *kong) lines() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.logged, "\n")
}

// event is one request in the access phase.
type event struct {
	kong    *kong
	request *http.Request
	// upstream is the header for the application, set what the client is to hear.
	upstream, set http.Header
	exit          *kong_plugin_protocol.ExitArgs
	asked         bool // the plugin has seen the request
}

// answer is what Kong's PDK says to a call of the plugin.
func (e *event) answer(method string, args []byte) ([]byte, error) {
	switch method {
	case "kong.request.get_method":
		return text(e.request.Method)
	case "kong.request.get_path_with_query":
		return text(e.request.RequestURI)
	case "kong.request.get_host":
		host, _, err := net.SplitHostPort(e.request.Host)
		if err != nil {
			host = e.request.Host
		}
		return text(strings.ToLower(host))
	case "kong.client.get_forwarded_ip":
		host, _, err := net.SplitHostPort(e.request.RemoteAddr)
		if err != nil {
			return nil, err
		}
		return text(host)
	case "kong.client.get_consumer":
		return nothingOr(e.kong.consumer, e.kong.consumer == nil)
	case "kong.client.get_credential":
		return nothingOr(e.kong.credential, e.kong.credential == nil)
	case "kong.request.get_headers":
		return e.headers(args)
	case "kong.log.err":
		var list structpb.ListValue
		if err := proto.Unmarshal(args, &list); err != nil {
			return nil, err
		}
		e.kong.log(fmt.Sprint(list.AsSlice()...))
		return nil, nil
	}
	return e.change(method, args)
}

// change does what a call of the plugin wants changed.
func (e *event) change(method string, args []byte) ([]byte, error) {
	switch method {
	case "kong.service.request.clear_header":
		var name kong_plugin_protocol.String
		if err := proto.Unmarshal(args, &name); err != nil {
			return nil, err
		}
		maps.DeleteFunc(e.upstream, func(field string, _ []string) bool { return strings.EqualFold(field, name.V) })
		return nil, nil
	case "kong.service.request.set_headers", "kong.response.set_headers":
		var fields structpb.Struct
		if err := proto.Unmarshal(args, &fields); err != nil {
			return nil, err
		}
		to := e.set
		if method == "kong.service.request.set_headers" {
			to = e.upstream
		}
		for name, values := range headersOf(&fields) {
			to[http.CanonicalHeaderKey(name)] = values
		}
		return nil, nil
	case "kong.response.exit":
		e.exit = new(kong_plugin_protocol.ExitArgs)
		return nil, proto.Unmarshal(args, e.exit)
	}
	return nil, fmt.Errorf("the plugin calls %s, which Kong's PDK may have and this test does not", method)
}

// headers are those of the request in lower case, up to as many as the plugin wants. Lua's
// texts hold any bytes, and Kong checks none of them.
func (e *event) headers(args []byte) ([]byte, error) {
	var most kong_plugin_protocol.Int
	if err := proto.Unmarshal(args, &most); err != nil {
		return nil, err
	}
	fields := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	bytesOf := map[string]string{} // stand-ins for what is no UTF-8, of the same length
	left := int(most.V)
	header := e.request.Header.Clone()
	header.Set("Host", e.request.Host)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		values := header[name]
		values = values[:min(len(values), left)]
		left -= len(values)
		list := make([]*structpb.Value, len(values))
		for i, value := range values {
			if valid := strings.ToValidUTF8(value, "?"); valid != value {
				bytesOf[valid] = value
				value = valid
			}
			list[i] = structpb.NewStringValue(value)
		}
		switch len(list) {
		case 0:
		case 1:
			fields.Fields[strings.ToLower(name)] = list[0]
		default:
			fields.Fields[strings.ToLower(name)] = structpb.NewListValue(&structpb.ListValue{Values: list})
		}
	}
	data, err := proto.Marshal(fields)
	for valid, raw := range bytesOf {
		data = []byte(strings.ReplaceAll(string(data), valid, raw))
	}
	return data, err
}

func text(s string) ([]byte, error) {
	return proto.Marshal(&kong_plugin_protocol.String{V: s})
}

func nothingOr(m proto.Message, nothing bool) ([]byte, error) {
	if nothing {
		return nil, nil
	}
	return proto.Marshal(m)
}

func headersOf(fields *structpb.Struct) map[string][]string {
	header := map[string][]string{}
	for name, value := range fields.GetFields() {
		for _, v := range value.GetListValue().GetValues() {
			header[name] = append(header[name], v.GetStringValue())
		}
	}
	return header
}

func send(w io.Writer, m proto.Message) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return writeFrame(w, data)
}

func writeFrame(w io.Writer, data []byte) error {
	_, err := w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.LittleEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, data)
	return data, err
}
