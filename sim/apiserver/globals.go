package apiserver

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/features"
	_ "k8s.io/apiserver/pkg/registry/rest" // owns metav1Now
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	_ "k8s.io/kubernetes/pkg/serviceaccount" // owns now
)

// registryNow is what the generic registry reads the time with when it fills creationTimestamp and
// computes deletionTimestamp. It has no setter.
//
//go:linkname registryNow k8s.io/apiserver/pkg/registry/rest.metav1Now
var registryNow func() metav1.Time

// tokenNow is the clock of service account tokens. It has no setter either.
//
//go:linkname tokenNow k8s.io/kubernetes/pkg/serviceaccount.now
var tokenNow func() time.Time

// running is set while a Server lives: the hooks below are the process's.
var running atomic.Bool

// ErrSecondServer is returned by New while another Server of this process is open.
var ErrSecondServer = errors.New("apiserver: another Server is open in this process; its clock and randomness are the process's")

// takeProcess points the process-wide sources of time and randomness that the embedded code reads at
// the world. The store puts uids and managedFields times right anyway; these hooks reach what is read
// before storing: admission, validation and the arithmetic of grace periods.
func takeProcess(o Options) error {
	if !running.CompareAndSwap(false, true) {
		return ErrSecondServer
	}
	if err := serveCBOR(o.CBOR); err != nil {
		running.Store(false)
		return err
	}
	relaxCollector()
	registryNow = func() metav1.Time { return metav1.NewTime(o.Clock()) }
	persistentvolume.NowFunc = registryNow
	tokenNow = o.Clock
	// Every cluster has --allow-privileged; it can be said once in a process.
	capabilities.Setup(true, 0)
	seedProcess(o.Seed)
	logTo(o.Log)
	return nil
}

// seedProcess begins the process-wide randomness anew.
func seedProcess(seed uint64) {
	uuid.SetRand(seeded(seed))
	utilrand.Seed(int64(seed))
}

// gcPercent is the garbage collector's GOGC while a Server lives. A request leaves a hundred times its object as
// garbage, and a world keeps little: at Go's 100 a third of all CPU time is the collector's, at 400 a tenth, for
// some hundred megabytes.
const gcPercent = 400

// collector is what GOGC was.
var collector int

// relaxCollector leaves alone what the environment says.
func relaxCollector() {
	if os.Getenv("GOGC") == "" {
		collector = debug.SetGCPercent(gcPercent)
	}
}

func restoreCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collector)
	}
}

// logTo sends the embedded code's log to w, each line once.
func logTo(w io.Writer) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true",
	} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog's flags are known
		}
	}
	klog.SetOutput(w)
}

func giveProcessBack() {
	restoreCollector()
	registryNow, persistentvolume.NowFunc = metav1.Now, metav1.Now
	tokenNow = time.Now
	uuid.SetRand(nil)
	_ = serveCBOR(false) // which it was before
	running.Store(false)
}

// serveCBOR sets the feature gate, which is the process's too.
func serveCBOR(on bool) error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.CBORServingAndStorage): on})
}

// codecs are what a scheme's objects are served with.
func codecs(s *runtime.Scheme, o Options) serializer.CodecFactory {
	if !o.CBOR {
		return serializer.NewCodecFactory(s)
	}
	return serializer.NewCodecFactory(s, serializer.WithSerializer(cbor.NewSerializerInfo))
}

// lockedReader is a stream of seeded bytes for any number of goroutines.
type lockedReader struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func seeded(seed uint64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return &lockedReader{src: rand.NewChaCha8(key)}
}

// Read implements io.Reader.
func (r *lockedReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Read(b)
}
