package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const quotaPath = "/api/v1/namespaces/default/resourcequotas"

func quotaOf(name, hard string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"hard":` + hard + `}}`
}

func podOf(name, cpu string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"terminationGracePeriodSeconds":30,"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
}

// A quota is counted with its creation's answer, refuses what exceeds it in the API server's words, and lets in again
// what fits when something has gone: objects, what pods request, custom resources.
func TestQuotas(t *testing.T) {
	now := DefaultTime
	w := newWorld(t, Options{Quotas: true, Clock: func() time.Time { return now }})
	w.addWidgets()
	w.post(widgetPath, widget("before", ""))
	w.post(quotaPath, quotaOf("q", `{"configmaps":"1","requests.cpu":"500m","count/widgets.example.com":"2","services.nodeports":"1"}`))
	used := func(want ...string) {
		t.Helper()
		q := w.get(quotaPath + "/q")
		for i := 0; i < len(want); i += 2 {
			if got := q.Object["status"].(map[string]any)["used"].(map[string]any)[want[i]]; got != want[i+1] {
				t.Errorf("used %s: %v, want %s", want[i], got, want[i+1])
			}
		}
	}
	used("configmaps", "0", "requests.cpu", "0", "count/widgets.example.com", "1", "services.nodeports", "0")

	w.post(configMapPath, `{"metadata":{"name":"a"}}`)
	w.refused(http.StatusForbidden, `configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`,
		"POST", configMapPath, jsonType, `{"metadata":{"name":"b"}}`)
	w.must(http.StatusOK, "DELETE", configMapPath+"/a", jsonType, "")
	used("configmaps", "0")
	w.must(http.StatusCreated, "POST", configMapPath+"?dryRun=All", jsonType, `{"metadata":{"name":"b"}}`)
	used("configmaps", "0")
	w.post(configMapPath, `{"metadata":{"name":"b"}}`)

	w.post(widgetPath, widget("x", ""))
	w.refused(http.StatusForbidden, "exceeded quota", "POST", widgetPath, jsonType, widget("y", ""))

	w.refused(http.StatusForbidden, `failed quota: q: must specify requests.cpu for: c`, "POST", podPath, jsonType, strings.Replace(podOf("p", "1"), `"requests":{"cpu":"1"}`, "", 1))
	w.post(podPath, podOf("p", "400m"))
	used("requests.cpu", "400m")
	w.refused(http.StatusForbidden, "requested: requests.cpu=200m, used: requests.cpu=400m, limited: requests.cpu=500m", "POST", podPath, jsonType, podOf("p2", "200m"))
	// A pod that is dying on a node counts until its grace is over.
	w.post(podPath+"/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`)
	w.must(http.StatusOK, "DELETE", podPath+"/p", jsonType, "")
	used("requests.cpu", "400m")
	now = now.Add(2 * time.Minute)
	w.must(http.StatusOK, "PATCH", podPath+"/p", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`)
	used("requests.cpu", "0")
}

// Without somebody who counts, a quota limits nothing: that is how a lone API server is.
func TestQuotasThatNobodyCounts(t *testing.T) {
	w := newWorld(t, Options{})
	w.post(quotaPath, quotaOf("q", `{"configmaps":"1"}`))
	for i := range 2 {
		w.post(configMapPath, fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i))
	}
	// Counted by hand, as a controller would: now it does.
	w.must(http.StatusOK, "PATCH", quotaPath+"/q/status", mergePatch, `{"status":{"hard":{"configmaps":"3"},"used":{"configmaps":"2"}}}`)
	w.post(configMapPath, `{"metadata":{"name":"c2"}}`)
	want(t, w.get(quotaPath+"/q"), "status.used.configmaps", "3")
	w.refused(http.StatusForbidden, "exceeded quota", "POST", configMapPath, jsonType, `{"metadata":{"name":"c3"}}`)
}

// A quota that is made by an apply limits what comes next.
func TestQuotaByApply(t *testing.T) {
	w := newWorld(t, Options{Quotas: true})
	quota := strings.Replace(quotaOf("q", `{"configmaps":"0"}`), "{", `{"apiVersion":"v1","kind":"ResourceQuota",`, 1)
	w.must(http.StatusCreated, http.MethodPatch, quotaPath+"/q?fieldManager=m", applyPatch, quota)
	w.refused(http.StatusForbidden, "exceeded quota", "POST", configMapPath, jsonType, `{"metadata":{"name":"a"}}`)
}

// A quota that somebody writes to while it is counted is counted again; one that is deleted meanwhile is no more.
func TestQuotaThatChangesMeanwhile(t *testing.T) {
	w := newWorld(t, Options{}) // nobody counts but the counter here
	c, err := w.newQuotaCounter()
	if err != nil {
		t.Fatal(err)
	}
	w.post(quotaPath, quotaOf("q", `{"configmaps":"1"}`))
	before := c.in("default")[0].DeepCopy()
	w.must(http.StatusOK, "PATCH", quotaPath+"/q", mergePatch, `{"spec":{"hard":{"configmaps":"2"}}}`)
	if err := c.sync(t.Context(), before); err != nil {
		t.Error(err)
	}
	want(t, w.get(quotaPath+"/q"), "status.hard.configmaps", "2", "status.used.configmaps", "0")
	w.must(http.StatusOK, "DELETE", quotaPath+"/q", jsonType, "")
	if err := c.sync(t.Context(), before); err != nil {
		t.Errorf("of a quota that is gone: %v", err)
	}
}
