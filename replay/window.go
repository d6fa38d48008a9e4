package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// window lets a person look at the cluster of a world that stands still: a loopback port that answers GET and LIST,
// and a kubeconfig that leads to it. What passes there is no part of the run.
type window struct {
	kubeconfig string
	dir        string
	server     *http.Server
	next       http.Handler

	world sync.RWMutex // held for writing while the world moves
	mu    sync.Mutex
	reads int
}

// openWindow makes a window that is covered until show.
func openWindow(ctx context.Context, next http.Handler) (w *window, err error) {
	w = &window{next: next}
	w.world.Lock()
	if w.dir, err = os.MkdirTemp("", "opsim-window-"); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		_ = os.RemoveAll(w.dir)
		return nil, err
	}
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	if err := os.WriteFile(w.kubeconfig, []byte(kubeconfig("http://"+l.Addr().String())), 0o600); err != nil {
		_ = os.RemoveAll(w.dir)
		_ = l.Close()
		return nil, err
	}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = w.server.Serve(l) }() // ends with close
	return w, nil
}

// show uncovers the window: the world stands still.
func (w *window) show() { w.world.Unlock() }

// hide covers it again, when the last look has ended.
func (w *window) hide() { w.world.Lock() }

func (w *window) close() {
	_ = w.server.Close()
	_ = os.RemoveAll(w.dir)
}

// ServeHTTP implements http.Handler.
func (w *window) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(out, http.StatusForbidden, "a world that stands still can only be read")
		return
	}
	if watch := r.URL.Query().Get("watch"); watch != "" && watch != "0" && watch != "false" || strings.Contains(r.URL.Path, "/watch/") {
		refuse(out, http.StatusForbidden, "nothing changes in a world that stands still: no watch")
		return
	}
	if !w.world.TryRLock() {
		refuse(out, http.StatusServiceUnavailable, "the world moves; look at it when it stands still")
		return
	}
	defer w.world.RUnlock()
	w.mu.Lock()
	w.reads++
	id := w.reads
	w.mu.Unlock()
	r = r.Clone(r.Context())
	for _, claim := range []string{"X-Remote-User", "X-Remote-Group"} {
		r.Header.Del(claim)
	}
	// The API server counts its calls to name them; this one is not to be counted.
	r.Header.Set("Audit-Id", fmt.Sprintf("00000000-0000-4000-9000-%012d", id))
	w.next.ServeHTTP(out, r)
}

func refuse(w http.ResponseWriter, code int32, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: metav1.StatusReasonForbidden, Code: code,
	})
}
