package recorder

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// parseBody reads what a write asks for; nil where that can't be told.
func parseBody(row *traces.Request) (body any) {
	if row.RequestBody == "" || json.Unmarshal([]byte(row.RequestBody), &body) != nil {
		return nil
	}
	if row.Group == "" && row.Resource == "secrets" {
		encodeStringData(body)
	}
	return body
}

// encodeStringData puts what a Secret is to hold where it will be: the API server makes data of stringData. It is so
// for redacted values too, whose form follows from where they stand (apicall.Secrets).
func encodeStringData(body any) {
	encoded := func(v any) any {
		if s, ok := v.(string); ok {
			return base64.StdEncoding.EncodeToString([]byte(s))
		}
		return v
	}
	all := func(v any) map[string]any {
		out := map[string]any{}
		m, _ := v.(map[string]any)
		for k, v := range m {
			out[k] = encoded(v)
		}
		return out
	}
	switch body := body.(type) {
	case map[string]any:
		if body["stringData"] == nil {
			return
		}
		data, _ := body["data"].(map[string]any)
		if data == nil {
			data = map[string]any{}
		}
		maps.Copy(data, all(body["stringData"]))
		body["data"] = data
		delete(body, "stringData")
	case []any:
		for _, op := range body {
			m, _ := op.(map[string]any)
			path, _ := m["path"].(string)
			switch rest, ok := strings.CutPrefix(path, "/stringData"); {
			case !ok:
			case rest == "":
				m["path"], m["value"] = "/data", all(m["value"])
			default:
				m["path"], m["value"] = "/data"+rest, encoded(m["value"])
			}
		}
	}
}

// at is what stands at a path of fields.
func at(v any, path ...string) any {
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

// baseVersion is the version that an object says it was made from; 0 for none.
func baseVersion(body any) int64 {
	s, _ := at(body, "metadata", "resourceVersion").(string)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// generatePrefix is the beginning of the name that the API server is to make.
func generatePrefix(body any) string {
	s, _ := at(body, "metadata", "generateName").(string)
	return s
}

// holds says whether what a write asks for is so in an object. The API server adds to what it is given (defaults,
// elements of lists that others own), so that more may be there.
//
// EXACTLY has lists be no longer than they are asked to be.
func holds(row *traces.Request, body any, object string, exactly bool) bool {
	var have map[string]any
	if json.Unmarshal([]byte(object), &have) != nil {
		return false
	}
	if ops, ok := body.([]any); ok {
		return operationsHold(ops, have)
	}
	wanted, ok := wishes(row, body).(map[string]any)
	if !ok {
		return false
	}
	if within(wanted, have, exactly) {
		return true
	}
	if _, has := wanted["status"]; !has || row.Subresource != "" {
		return false
	}
	// Where status is a subresource, a write of the object leaves it as it is.
	delete(wanted, "status")
	return len(wanted) > 0 && within(wanted, have, exactly)
}

// unchanged says whether an update asks for nothing but what the object is already.
func unchanged(row *traces.Request, body any, object string) bool {
	var have any
	if json.Unmarshal([]byte(object), &have) != nil {
		return false
	}
	wanted, ok := wishes(row, body).(map[string]any)
	if !ok {
		return false
	}
	found := wishes(row, have).(map[string]any)
	if row.Subresource == "" && !within(wanted["status"], found["status"], true) {
		delete(wanted, "status")
	}
	if row.Subresource == "" {
		delete(found, "status")
	}
	return within(wanted, found, true) && within(found, wanted, true)
}

// servers are the fields of metadata that are the API server's own.
var servers = map[string]bool{
	"managedFields": true, "resourceVersion": true, "uid": true, "generation": true, "creationTimestamp": true, "selfLink": true,
	"deletionTimestamp": true, "deletionGracePeriodSeconds": true,
}

// wishes are the part of a body that says what is to be: of a status, the status alone.
func wishes(row *traces.Request, body any) any {
	all, ok := body.(map[string]any)
	if !ok {
		return body
	}
	out := map[string]any{}
	for k, v := range all {
		switch {
		case k == "apiVersion", k == "kind", row.Subresource == "status" && k != "status":
		case k == "metadata":
			meta := map[string]any{}
			if m, ok := v.(map[string]any); ok {
				for k, v := range m {
					if !servers[k] {
						meta[k] = v
					}
				}
			}
			if len(meta) > 0 {
				out[k] = meta
			}
		default:
			out[k] = v
		}
	}
	return out
}

// within says whether all of WANTED is in HAVE. What is empty may be missing; null wants nothing to be there. Fields
// with $ are directions for strategic merges. EXACTLY has lists be as long.
func within(wanted, have any, exactly bool) bool {
	switch w := wanted.(type) {
	case nil:
		return empty(have)
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return have == nil && empty(w)
		}
		for k, v := range w {
			if !strings.HasPrefix(k, "$") && !within(v, h[k], exactly) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return have == nil && empty(w)
		}
		if len(h) > len(w) && (exactly || len(w) == 0) {
			return false
		}
		for _, v := range w {
			if !anyHolds(v, h, exactly) {
				return false
			}
		}
		return true
	}
	return wanted == have || have == nil && empty(wanted)
}

func anyHolds(wanted any, list []any, exactly bool) bool {
	for _, have := range list {
		if within(wanted, have, exactly) {
			return true
		}
	}
	return false
}

// empty says whether a value is what the API server leaves out.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, e := range v {
			if !empty(e) {
				return false
			}
		}
		return true
	}
	return false
}

// operationsHold says whether the operations of a JSON patch (RFC 6902) have been done: those that can't be told from
// what they leave (move, copy) are not.
func operationsHold(ops []any, have any) bool {
	did := false
	for _, op := range ops {
		kind, _ := at(op, "op").(string)
		path, _ := at(op, "path").(string)
		there, list := pointed(have, path)
		value := at(op, "value")
		switch kind {
		case "test":
			continue
		case "add", "replace":
			if list != nil {
				if !anyHolds(value, list, false) {
					return false
				}
			} else if !within(value, there, true) {
				return false
			}
		case "remove":
			if !empty(there) || list != nil {
				return false
			}
		default:
			return false
		}
		did = true
	}
	return did
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// pointed is what a JSON pointer (RFC 6901) points to; LIST where that is an element of a list, whose place changes.
func pointed(v any, path string) (there any, list []any) {
	if path == "" {
		return v, nil
	}
	for _, part := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		switch p := v.(type) {
		case map[string]any:
			v, list = p[unescape.Replace(part)], nil
		case []any:
			list = p
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(p) {
				v = p[i]
			} else {
				v = nil
			}
		default:
			return nil, nil
		}
	}
	return v, list
}

// manager is an entry of managedFields.
type manager struct {
	Manager, Operation, Subresource, Time string
}

// changedBy is the field manager that made a version: whose entry in managedFields is not as it was before. The API
// server writes an entry's time when its manager changes a field; of a second write within the second nothing tells.
func changedBy(s *state) string {
	if s == nil || s.row.Type == string(traces.Deleted) || !s.known {
		return ""
	}
	before := map[manager]bool{}
	if s.before.there() {
		for _, m := range managersOf(s.before.row.Object) {
			before[m] = true
		}
	}
	name := ""
	for _, m := range managersOf(s.row.Object) {
		switch {
		case before[m], m.Manager == name:
		case name != "":
			return ""
		default:
			name = m.Manager
		}
	}
	return name
}

func managersOf(object string) []manager {
	var o struct {
		Metadata struct {
			ManagedFields []manager `json:"managedFields"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(object), &o) != nil {
		return nil
	}
	return o.Metadata.ManagedFields
}
