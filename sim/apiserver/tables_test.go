package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const tableType = "application/json;as=Table;v=v1;g=meta.k8s.io"

// row is the first row of a table, by the names of its columns, and the metadata of its object.
func row(w *world, path string) (map[string]any, metav1.PartialObjectMetadata) {
	w.t.Helper()
	code, text := w.do(http.MethodGet, path, "", "", "Accept", tableType)
	var table metav1.Table
	if err := json.Unmarshal([]byte(text), &table); err != nil || code != http.StatusOK || len(table.Rows) == 0 {
		w.t.Fatalf("GET %s as a table: %d, %v: %s", path, code, err, text)
	}
	out := map[string]any{}
	for i, c := range table.ColumnDefinitions {
		out[c.Name] = table.Rows[0].Cells[i]
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(table.Rows[0].Object.Raw, &object); err != nil {
		w.t.Fatal(err)
	}
	return out, object
}

// Ages are counted by the world's clock, in lists and of single objects, of every kind; and what is no age is as it was.
func TestAgesAreTheWorlds(t *testing.T) {
	now := DefaultTime
	w := newWorld(t, Options{Clock: func() time.Time { return now }})
	columns := `    additionalPrinterColumns:
    - {name: Due, type: date, jsonPath: .status.phase}
    - {name: Text, type: string, jsonPath: .status.phase}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    subresources:
`
	w.post(crdPath, asJSON(t, strings.NewReplacer("    subresources:\n", columns, "  versions:\n", "  versions:\n"+v2Version).Replace(widgetCRD)))
	w.post(widgetPath, widget("a", `,"spec":{}`))
	due := DefaultTime.Add(time.Minute).Format(time.RFC3339)
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a/status", mergePatch, `{"status":{"phase":"`+due+`"}}`)
	w.addConfigMap("a")
	w.post("/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.other.example.com"},"spec":{"group":"other.example.com","version":"v1",
		"groupPriorityMinimum":1,"versionPriority":1,"service":{"namespace":"default","name":"s"},"insecureSkipTLSVerify":true}}`)
	w.post("/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"},
		"firstTimestamp":"2020-01-01T00:00:00Z","lastTimestamp":"2020-01-01T00:01:00Z","count":2}`)
	now = now.Add(100 * time.Second)
	for path, want := range map[string]map[string]any{
		"/api/v1/namespaces":                          {"Age": "100s"},
		"/apis/apiregistration.k8s.io/v1/apiservices": {"Age": "100s"},
		configMapPath:                                 {"Age": "100s"},
		configMapPath + "/a":                          {"Age": "100s"},
		"/api/v1/namespaces/default/events":           {"Last Seen": "40s", "First Seen": "100s"},
		crdPath:                                       {"Created At": DefaultTime.Format(time.RFC3339)},
		widgetPath:                                    {"Age": "100s", "Due": "40s", "Text": due},
		widgetPath + "/a":                             {"Age": "100s", "Due": "40s", "Text": due},
		widgetPath + "/a/scale":                       {"Age": "100s"},
		"/apis/example.com/v2/widgets":                {"Age": "100s"},
	} {
		got, object := row(w, path)
		for column, cell := range want {
			if got[column] != cell {
				t.Errorf("%s: %s is %v, want %v", path, column, got[column], cell)
			}
		}
		if c := object.CreationTimestamp; !c.Time.Equal(DefaultTime) {
			t.Errorf("%s: the row's object was created at %v", path, c)
		}
	}
}
