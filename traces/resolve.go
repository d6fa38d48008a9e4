package traces

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// bodyIndex finds objects of the watch table by their hash. It is made when first needed and takes 12
// bytes a watch row; besides it keeps the objects of the row groups last used.
type bodyIndex struct {
	mu     sync.Mutex
	groups []*indexedGroup // nil until made
	recent []*indexedGroup // with objects loaded, last used first
}

type indexedGroup struct {
	file    File
	number  int      // of the row group in it
	hashes  []uint64 // sorted
	objects map[objectKey]string
}

type objectKey struct {
	uid             string
	resourceVersion int64
	hash            string
}

// recentGroups bounds the objects in memory: a row group holds at most RowGroupBytes of text.
const recentGroups = 3

// ResponseBody is the JSON text of the call's answer: its own ResponseBody, or the object of the watch
// table that its ResponseHash refers to, or "" when the trace keeps none (the call had none, or it was
// a list, whose items are SYNC rows). The call must have been read with the columns uid,
// resource_version, response_body and response_hash. Calls in the order of Seq are found fastest.
func (t *Trace) ResponseBody(ctx context.Context, r *Request) (string, error) {
	if r.ResponseBody != "" || r.ResponseHash == "" {
		return r.ResponseBody, nil
	}
	b := &t.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.make(ctx, t); err != nil {
		return "", err
	}
	key := objectKey{uid: r.UID, resourceVersion: r.ResourceVersion, hash: r.ResponseHash}
	body, err := b.find(ctx, t, key)
	if err != nil {
		return "", err
	}
	if body == "" {
		return "", &FormatError{
			Path:   t.dir,
			Detail: fmt.Sprintf("the answer of request %d refers to object %s (uid %s, version %d), which no watch row holds", r.Seq, r.ResponseHash, r.UID, r.ResourceVersion),
			Hint:   "the trace is damaged, or rows were lost: see its losses",
		}
	}
	return body, nil
}

func (b *bodyIndex) find(ctx context.Context, t *Trace, key objectKey) (string, error) {
	hash, err := strconv.ParseUint(key.hash, 16, 64)
	if err != nil {
		return "", nil //nolint:nilerr // not a hash of ours: nothing has it
	}
	for i, g := range b.recent {
		if body, ok := g.objects[key]; ok {
			b.recent = slices.Insert(slices.Delete(b.recent, i, i+1), 0, g)
			return body, nil
		}
	}
	for _, g := range b.groups {
		if _, ok := slices.BinarySearch(g.hashes, hash); !ok || g.objects != nil {
			continue
		}
		if err := b.load(ctx, t, g); err != nil {
			return "", err
		}
		if body, ok := g.objects[key]; ok {
			return body, nil
		}
	}
	return "", nil
}

// make reads the hashes of all watch rows.
func (b *bodyIndex) make(ctx context.Context, t *Trace) error {
	if b.groups != nil {
		return nil
	}
	all := []*indexedGroup{}
	sel := (&Range{Columns: []string{"object_hash"}}).selection()
	for _, f := range t.manifest.Files {
		if f.Table != TableWatch || f.Rows == 0 {
			continue
		}
		err := t.eachGroup(ctx, f, sel, func(g *group) error {
			rows, err := g.stored(sel)
			if err != nil {
				return err
			}
			i := &indexedGroup{file: f, number: g.number, hashes: make([]uint64, 0, len(rows))}
			for _, r := range rows {
				if h, err := strconv.ParseUint(r.(*WatchEvent).ObjectHash, 16, 64); err == nil {
					i.hashes = append(i.hashes, h)
				}
			}
			slices.Sort(i.hashes)
			all = append(all, i)
			return nil
		})
		if err != nil {
			return err
		}
	}
	b.groups = all
	return nil
}

// load reads the objects of a group, and forgets those of the one that was used the longest ago.
func (b *bodyIndex) load(ctx context.Context, t *Trace, i *indexedGroup) error {
	sel := (&Range{Columns: []string{"uid", "resource_version", "object", "object_hash"}}).selection()
	err := t.eachGroup(ctx, i.file, sel, func(g *group) error {
		if g.number != i.number {
			return nil
		}
		rows, err := g.stored(sel)
		if err != nil {
			return err
		}
		i.objects = make(map[objectKey]string, len(rows))
		for _, r := range rows {
			w := r.(*WatchEvent)
			i.objects[objectKey{uid: w.UID, resourceVersion: w.ResourceVersion, hash: w.ObjectHash}] = w.Object
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(b.recent) == recentGroups {
		b.recent[recentGroups-1].objects = nil
		b.recent = b.recent[:recentGroups-1]
	}
	b.recent = slices.Insert(b.recent, 0, i)
	return nil
}

// forget drops what was read.
func (b *bodyIndex) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.groups, b.recent = nil, nil
}
