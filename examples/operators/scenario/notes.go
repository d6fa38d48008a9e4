package scenario

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var notes = schema.GroupVersionResource{Group: "note.example.com", Version: "v1", Resource: "notes"}

// playNotes has a note kept at once, and some more a little later.
func playNotes(ctx context.Context, u *user) error {
	if err := u.await(ctx, thing{webhooks, "latehook"}, "registered", has("metadata", "uid")); err != nil {
		return err
	}
	for i := range 6 {
		note := thing{notes, "note-" + strconv.Itoa(i)}
		if err := u.create(ctx, note, "Note", map[string]any{"text": "to do"}); err != nil {
			return err
		}
		if err := u.await(ctx, note, "kept", is(true, "status", "kept")); err != nil {
			return err
		}
		if i == 0 {
			if err := u.stay(ctx, 6*time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}
