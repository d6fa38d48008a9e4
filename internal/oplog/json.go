package oplog

import (
	"bytes"
	"encoding/json"
	"strings"
)

// object is a JSON object whose members keep their order. A key that comes twice keeps its first place and its
// last value: zap writes such lines, and a JSON reader may refuse them.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

func (o *object) set(key string, value json.RawMessage) {
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

func (o *object) text(key, value string) { o.set(key, marshal(value)) }

func (o *object) add(other object) {
	for _, k := range other.keys {
		o.set(k, other.values[k])
	}
}

// String is the object as compact JSON, "" when it is empty.
func (o object) String() string {
	if len(o.keys) == 0 {
		return ""
	}
	var b bytes.Buffer
	for i, k := range o.keys {
		b.WriteByte("{,"[min(i, 1)])
		b.Write(marshal(k))
		b.WriteByte(':')
		// Each value was parsed or made by us, so Compact cannot fail.
		_ = json.Compact(&b, o.values[k])
	}
	b.WriteByte('}')
	return b.String()
}

func marshal(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}

// parseObject parses s as exactly one JSON object.
func parseObject(s string) (object, bool) {
	d := json.NewDecoder(strings.NewReader(s))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return object{}, false
	}
	var o object
	for d.More() {
		t, err := d.Token()
		key, isText := t.(string)
		if err != nil || !isText {
			return object{}, false
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return object{}, false
		}
		o.set(key, v)
	}
	if _, err := d.Token(); err != nil {
		return object{}, false
	}
	return o, strings.TrimSpace(s[d.InputOffset():]) == ""
}

// parseJSON reads the JSON lines of zap, slog, klog, logrus and zerolog. A JSON object without a message and
// without a level is no log line but somebody's data.
func parseJSON(line string) (parsed, bool) {
	if !strings.HasPrefix(strings.TrimLeft(line, " "), "{") {
		return parsed{}, false
	}
	o, ok := parseObject(line)
	if !ok {
		return parsed{}, false
	}
	var p parsed
	known := false
	for _, k := range o.keys {
		raw := o.values[k]
		var s string
		isText := json.Unmarshal(raw, &s) == nil
		switch k {
		case "time", "ts", "timestamp", "t", "@timestamp":
			continue
		case "level", "severity", "lvl":
			if level, ok := levelOf(s); isText && ok && p.level == "" {
				p.level, known = level, true
				continue
			}
		case "msg", "message":
			if isText && p.message == "" {
				p.message, known = s, true
				continue
			}
		}
		p.fields.set(k, raw)
	}
	if !known {
		return parsed{}, false
	}
	if p.level == "" {
		p.level = klogJSONLevel(o)
	}
	return p, true
}

// klogJSONLevel is the level of klog's JSON form (k8s.io/component-base/logs/json), which has no level: info
// lines carry their verbosity v, error lines an err and no v.
func klogJSONLevel(o object) string {
	if _, ok := o.values["v"]; ok {
		return Info
	}
	if _, ok := o.values["err"]; ok {
		return Error
	}
	return ""
}
