package probes

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/opreplay/opreplay/bpf/symbols"
)

// Registers by their number in Go's ABIInternal for amd64, in which arguments and results take them in turn.
const (
	rax = iota
	rbx
	rcx
	rdi
	rsi
	r8
	r9
	r10
	r11
	none = 255
)

// target is a function that is worth watching and what its registers hold.
type target struct {
	function string // by its canonical name
	// item is what type argument the function is made for: "struct" (a namespace and a name), "string",
	// "any" (an interface that holds either), or "" for functions that are not generic.
	item string
	at   place
	kind Kind

	text    [2]reg2 // pairs of pointer and length
	pointer byte    // or a pointer to a namespace and a name, or to a string
	named   bool    // the receiver begins with its name
	stack   bool
	arg     [2]byte
	options bool // the words are priorityqueue.AddOpts
}

type reg2 struct{ ptr, len byte }

// place is where in a function to look.
type place uint8

const (
	entry place = iota
	returns
)

var noText = [2]reg2{{none, none}, {none, none}}

const (
	controllerPkg = "sigs.k8s.io/controller-runtime/pkg/internal/controller."
	priorityPkg   = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue."
	workqueuePkg  = "k8s.io/client-go/util/workqueue."
)

// Methods of generic types take a dictionary behind their receiver: receiver RAX, dictionary RBX, then the
// arguments. A struct of two strings takes four registers, a string or an interface two.
var (
	keyPair   = [2]reg2{{rcx, rdi}, {rsi, r8}}
	keyString = [2]reg2{{rcx, rdi}, {none, none}}
	noArgs    = [2]byte{none, none}
)

// loopTargets is controller-runtime's own loop: 0.19 and later with a type parameter, before with the request
// in an interface.
var loopTargets = []target{
	{function: controllerPkg + "(*Controller[...]).reconcileHandler", item: "struct", kind: Start, text: [2]reg2{{rsi, r8}, {r9, r10}}, pointer: none, named: true, arg: noArgs},
	{function: controllerPkg + "(*Controller).reconcileHandler", kind: Start, text: noText, pointer: rsi, named: true, arg: noArgs},
}

// resultTargets is the reconciler's results as that loop gets them: Result{Requeue, RequeueAfter, Priority}, of
// which Priority came with 0.23, and an error, of which we look at whether it has a type.
func resultTargets(controllerRuntime string) []target {
	failed := byte(rdi)
	// A version that can't be read is one that somebody builds today.
	if v, err := version.ParseGeneric(controllerRuntime); err == nil && v.LessThan(version.MajorMinor(0, 23)) {
		failed = rcx
	}
	arg := [2]byte{rbx, failed}
	return []target{
		{function: controllerPkg + "(*Controller[...]).Reconcile", item: "struct", at: returns, kind: Return, text: noText, pointer: none, arg: arg},
		{function: controllerPkg + "(*Controller).Reconcile", at: returns, kind: Return, text: noText, pointer: none, arg: arg},
	}
}

// priorityTargets is controller-runtime's priority queue (0.20 and later).
var priorityTargets = []target{
	{function: priorityPkg + "(*priorityqueue[...]).AddWithOpts", item: "struct", kind: Add, text: noText, pointer: r8, stack: true, arg: [2]byte{rcx, rdi}, options: true},
	{function: priorityPkg + "(*priorityqueue[...]).Done", item: "struct", kind: Done, text: keyPair, pointer: none, arg: noArgs},
}

// queueTargets is client-go's work queues: typed ones (0.31 and later, and made for any as what the untyped
// ones are since), and untyped ones.
var queueTargets = []target{
	{function: workqueuePkg + "(*Typed[...]).Add", item: "struct", kind: Add, text: keyPair, pointer: none, stack: true, arg: noArgs},
	{function: workqueuePkg + "(*Typed[...]).Add", item: "string", kind: Add, text: keyString, pointer: none, stack: true, arg: noArgs},
	{function: workqueuePkg + "(*Typed[...]).Add", item: "any", kind: Add, text: noText, pointer: rdi, stack: true, arg: noArgs},
	{function: workqueuePkg + "(*Type).Add", kind: Add, text: noText, pointer: rcx, stack: true, arg: noArgs},

	{function: workqueuePkg + "(*delayingType[...]).AddAfter", item: "struct", kind: AddAfter, text: keyPair, pointer: none, stack: true, arg: [2]byte{r9, none}},
	{function: workqueuePkg + "(*delayingType[...]).AddAfter", item: "string", kind: AddAfter, text: keyString, pointer: none, stack: true, arg: [2]byte{rsi, none}},
	{function: workqueuePkg + "(*delayingType[...]).AddAfter", item: "any", kind: AddAfter, text: noText, pointer: rdi, stack: true, arg: [2]byte{rsi, none}},
	{function: workqueuePkg + "(*delayingType).AddAfter", kind: AddAfter, text: noText, pointer: rcx, stack: true, arg: [2]byte{rdi, none}},

	{function: workqueuePkg + "(*rateLimitingType[...]).AddRateLimited", item: "struct", kind: AddRateLimited, text: keyPair, pointer: none, stack: true, arg: noArgs},
	{function: workqueuePkg + "(*rateLimitingType[...]).AddRateLimited", item: "string", kind: AddRateLimited, text: keyString, pointer: none, stack: true, arg: noArgs},
	{function: workqueuePkg + "(*rateLimitingType[...]).AddRateLimited", item: "any", kind: AddRateLimited, text: noText, pointer: rdi, stack: true, arg: noArgs},
	{function: workqueuePkg + "(*rateLimitingType).AddRateLimited", kind: AddRateLimited, text: noText, pointer: rcx, stack: true, arg: noArgs},

	{function: workqueuePkg + "(*Typed[...]).Done", item: "struct", kind: Done, text: keyPair, pointer: none, arg: noArgs},
	{function: workqueuePkg + "(*Typed[...]).Done", item: "string", kind: Done, text: keyString, pointer: none, arg: noArgs},
	{function: workqueuePkg + "(*Typed[...]).Done", item: "any", kind: Done, text: noText, pointer: rdi, arg: noArgs},
	{function: workqueuePkg + "(*Type).Done", kind: Done, text: noText, pointer: rcx, arg: noArgs},
}

// getTargets is where a worker takes a key from a queue, which begins its pass where there is no
// controller-runtime. The key is a result.
var getTargets = []target{
	{function: workqueuePkg + "(*Typed[...]).Get", item: "struct", at: returns, kind: Start, text: [2]reg2{{rax, rbx}, {rcx, rdi}}, pointer: none, arg: noArgs},
	{function: workqueuePkg + "(*Typed[...]).Get", item: "string", at: returns, kind: Start, text: [2]reg2{{rax, rbx}, {none, none}}, pointer: none, arg: noArgs},
	{function: workqueuePkg + "(*Typed[...]).Get", item: "any", at: returns, kind: Start, text: noText, pointer: rbx, arg: noArgs},
	{function: workqueuePkg + "(*Type).Get", at: returns, kind: Start, text: noText, pointer: rbx, arg: noArgs},
}

// callTargets is net/http's client side, under every API call whatever its protocol.
var callTargets = []target{
	{function: "net/http.(*Transport).roundTrip", kind: Request, text: noText, pointer: none, stack: true, arg: noArgs},
	{function: "net/http.(*Transport).roundTrip", at: returns, kind: Response, text: noText, pointer: none, arg: noArgs},
}

// itemOf tells from the full name of a generic function what it is made for: the compiler makes one for each
// shape of type arguments, and names it go.shape.TYPE.
func itemOf(name string) string {
	_, shape, ok := strings.Cut(name, "[go.shape.")
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(shape, "string"):
		return "string"
	case strings.HasPrefix(shape, "interface"):
		return "any"
	case strings.HasPrefix(shape, "struct"):
		return "struct"
	}
	return "other"
}

// found is a function of a binary and the target that it is.
type found struct {
	fn     symbols.Func
	target target
}

// find looks through all functions of a binary.
func find(b *symbols.Binary) []found {
	byName := map[string][]symbols.Func{}
	for i := range b.NumFuncs() {
		fn := b.Func(i)
		name := fn.Name()
		if !watched(name) || fn.Wrapper() { // a wrapper calls the function itself, and would count twice
			continue
		}
		byName[symbols.Canonical(name)] = append(byName[symbols.Canonical(name)], fn)
	}
	var all []found
	add := func(targets []target) (n int) {
		for _, t := range targets {
			for _, fn := range byName[t.function] {
				if itemOf(fn.Name()) == t.item {
					all = append(all, found{fn, t})
					n++
				}
			}
		}
		return n
	}
	loops := add(loopTargets)
	add(resultTargets(b.Modules["sigs.k8s.io/controller-runtime"]))
	add(priorityTargets)
	add(queueTargets)
	if loops == 0 {
		add(getTargets)
	}
	add(callTargets)
	return all
}

// watched says cheaply whether a function may be a target, before its name is taken apart.
func watched(name string) bool {
	return strings.HasPrefix(name, controllerPkg) || strings.HasPrefix(name, priorityPkg) ||
		strings.HasPrefix(name, workqueuePkg) || strings.HasPrefix(name, "net/http.(*Transport)")
}
