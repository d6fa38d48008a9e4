package livecluster

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditEvent is what the tests need of an audit.k8s.io/v1 Event.
type auditEvent struct {
	AuditID        string
	Stage          string
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Name string }
	RequestObject  json.RawMessage
	ResponseObject struct{ Metadata struct{ UID string } }
}

// isEndOfWatch tells of the events that the webhook may miss at the cluster's stop.
func (e auditEvent) isEndOfWatch() bool { return e.Verb == "watch" && e.Stage == "ResponseComplete" }

func (e auditEvent) key() string { return e.AuditID + " " + e.Stage }

// sink is an audit webhook.
type sink struct {
	*httptest.Server
	events chan auditEvent // more than a test makes
}

func newSink(t *testing.T) *sink {
	s := &sink{events: make(chan auditEvent, 100_000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list struct{ Items []auditEvent }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Errorf("the webhook got no EventList: %v", err)
		}
		for _, ev := range list.Items {
			s.events <- ev
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func readAuditLog(t *testing.T, path string) []auditEvent {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var events []auditEvent
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var ev auditEvent
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		events = append(events, ev)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

func TestAudit(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	dir := t.TempDir() // kept by Stop, so that the whole log can be read
	c := Start(t, Options{AuditLog: true, AuditWebhook: s.URL + "/audit", Dir: dir})
	ctx := timed(t)
	made, err := client(t, c.ConfigFor("flopsy", "system:masters")).Resource(configMaps).Namespace("default").
		Create(ctx, configMap("burrow"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	isOurs := func(ev auditEvent) bool { return ev.Verb == "create" && ev.ObjectRef.Name == "burrow" }

	var ours []auditEvent
	for _, ev := range readAuditLog(t, c.AuditLogFile()) { // written before the client had its answer
		if isOurs(ev) {
			ours = append(ours, ev)
		}
	}
	if len(ours) != 1 {
		t.Fatalf("the audit log has %d creations of burrow, want 1", len(ours))
	}
	ev := ours[0]
	if ev.User.Username != "flopsy" || ev.Stage != "ResponseComplete" || len(ev.RequestObject) == 0 ||
		ev.ResponseObject.Metadata.UID != string(made.GetUID()) {
		t.Errorf("the audit event is not that of flopsy's burrow: %+v", ev)
	}
	webhook := awaitEvent(ctx, t, s, isOurs)

	c.Stop()  // delivers the rest
	s.Close() // waits for what is being delivered
	close(s.events)
	for ev := range s.events {
		webhook[ev.key()]++
	}
	logged := map[string]int{}
	for _, ev := range readAuditLog(t, c.AuditLogFile()) {
		logged[ev.key()]++
		if webhook[ev.key()] != 1 && !ev.isEndOfWatch() {
			t.Errorf("%s of %q is %d times in the webhook", ev.Stage, ev.Verb, webhook[ev.key()])
		}
	}
	if len(logged) < 10 {
		t.Errorf("the log has only %d events", len(logged))
	}
	for key := range webhook {
		if logged[key] != 1 {
			t.Errorf("event %s is in the webhook and %d times in the log", key, logged[key])
		}
	}
}

// awaitEvent receives events until one is WANTED and returns how often each came.
func awaitEvent(ctx context.Context, t *testing.T, s *sink, wanted func(auditEvent) bool) map[string]int {
	t.Helper()
	got := map[string]int{}
	for {
		select {
		case ev := <-s.events:
			got[ev.key()]++
			if wanted(ev) {
				return got
			}
		case <-ctx.Done():
			t.Fatal("the webhook never got the event")
		}
	}
}
