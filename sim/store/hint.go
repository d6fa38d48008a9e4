package store

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Hint is what a recording says about the object that a request writes. Zero fields say nothing.
type Hint struct {
	// UID becomes the uid of the object that the request creates.
	UID types.UID
	// ResourceVersion becomes that of the write when it is higher than the world's newest; else the
	// write takes the next one as usual.
	ResourceVersion uint64
	// Name is used where the API server would generate one from metadata.generateName. The store
	// itself does not read it: by the time of storing the name is fixed (see sim/apiserver).
	Name string
	// Time is the creation time of the object that the request creates.
	Time time.Time
}

type hintKey struct{}

// WithHint attaches a hint to all writes made with the returned context. One request, one hint.
func WithHint(ctx context.Context, h Hint) context.Context {
	return context.WithValue(ctx, hintKey{}, h)
}

// HintFrom returns the hint of ctx, or an empty one.
func HintFrom(ctx context.Context) Hint {
	h, _ := ctx.Value(hintKey{}).(Hint)
	return h
}

type mutationKey struct{}

// WithMutation has writes that are made with the returned context know whether admission changed the object. Of
// others the store assumes that it did.
func WithMutation(ctx context.Context) context.Context {
	return context.WithValue(ctx, mutationKey{}, new(atomic.Bool))
}

// Mutated notes that admission may have changed what the request of ctx writes. A schema has not seen that: what
// it does not allow is stored and is gone when it is read.
func Mutated(ctx context.Context) {
	if m, ok := ctx.Value(mutationKey{}).(*atomic.Bool); ok {
		m.Store(true)
	}
}

func mutated(ctx context.Context) bool {
	m, ok := ctx.Value(mutationKey{}).(*atomic.Bool)
	return !ok || m.Load()
}

type refusalKey struct{}

// WithRefusal has every write that is made with the returned context fail with err, before anything comes of it.
// Dry runs are no writes: the registry answers them without the store.
func WithRefusal(ctx context.Context, err error) context.Context {
	return context.WithValue(ctx, refusalKey{}, err)
}

// RefusalFrom returns what writes with ctx fail with; nil: they do not.
func RefusalFrom(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// Client says who is at the other end of a request. A request with a Client is external.
type Client struct {
	UserAgent string
	User      string
	// Process names the process of the world, "" for others.
	Process string
}

type clientKey struct{}

// WithClient marks a request as an external client's.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientFrom returns the client of ctx; ok is false for the API server's own requests.
func ClientFrom(ctx context.Context) (c Client, ok bool) {
	c, ok = ctx.Value(clientKey{}).(Client)
	return c, ok
}
