package scenario

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	zones   = schema.GroupVersionResource{Group: "dns.example.com", Version: "v1", Resource: "zones"}
	records = schema.GroupVersionResource{Group: "dns.example.com", Version: "v1", Resource: "records"}
)

// playRecords makes two zones with records. One is taken down in good order, records first; of the other
// the zone goes first, and the user waits in vain for its records to go, for longer than operators poll apart.
func playRecords(ctx context.Context, u *user) error {
	corp, lab := thing{zones, "corp"}, thing{zones, "lab"}
	for _, zone := range []thing{corp, lab} {
		if err := u.create(ctx, zone, "Zone", map[string]any{"domain": zone.name + ".example.com"}); err != nil {
			return err
		}
	}
	inCorp, err := u.createRecords(ctx, corp, "www", "mail", "vpn", "wiki", "git", "ci")
	if err != nil {
		return err
	}
	inLab, err := u.createRecords(ctx, lab, "rig", "scope")
	if err != nil {
		return err
	}
	if err := u.moveRecord(ctx, inCorp[0], "192.0.2.100"); err != nil {
		return err
	}
	// Long before its records, so that the operator knows that the zone is gone when they are to go.
	if err := u.delete(ctx, lab); err != nil {
		return err
	}
	for _, t := range append(inCorp, corp) {
		if err := u.delete(ctx, t); err != nil {
			return err
		}
		if err := u.await(ctx, t, "gone", gone); err != nil {
			return err
		}
	}
	for _, record := range inLab {
		if err := u.delete(ctx, record); err != nil {
			return err
		}
	}
	_, err = u.look(ctx, inLab[0], 12*time.Second, gone)
	return err
}

// createRecords makes records in the zone and waits until each is published.
func (u *user) createRecords(ctx context.Context, zone thing, names ...string) ([]thing, error) {
	var all []thing
	for i, name := range names {
		record := thing{records, name}
		spec := map[string]any{"zone": zone.name, "address": fmt.Sprintf("192.0.2.%d", i+1)}
		if err := u.create(ctx, record, "Record", spec); err != nil {
			return nil, err
		}
		all = append(all, record)
	}
	for _, record := range all {
		published := func(o *unstructured.Unstructured) bool {
			if o == nil {
				return false
			}
			fqdn, _, _ := unstructured.NestedString(o.Object, "status", "fqdn")
			return fqdn == record.name+"."+zone.name+".example.com"
		}
		if err := u.await(ctx, record, "published", published); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// moveRecord changes a record's address and waits until the provider has it.
func (u *user) moveRecord(ctx context.Context, record thing, address string) error {
	if _, err := u.edit(ctx, record, map[string]any{"address": address}); err != nil {
		return err
	}
	entry := thing{configMaps, "provider-" + record.name}
	return u.await(ctx, entry, "moved to "+address, func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		at, _, _ := unstructured.NestedString(o.Object, "data", "address")
		return at == address
	})
}
