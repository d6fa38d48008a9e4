package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var sites = schema.GroupVersionResource{Group: "web.example.com", Version: "v1", Resource: "sites"}

// playSites publishes two sites, changes their titles, waits for the first to come to rest and takes the
// second down.
func playSites(ctx context.Context, u *user) error {
	shop, blog := thing{sites, "shop"}, thing{sites, "blog"}
	for _, site := range []thing{shop, blog} {
		spec := map[string]any{"host": site.name + ".example.com", "title": "Soon"}
		if err := u.create(ctx, site, "Site", spec); err != nil {
			return err
		}
		if err := u.awaitPage(ctx, site, "Soon"); err != nil {
			return err
		}
		if err := u.await(ctx, site, "served", func(o *unstructured.Unstructured) bool { return condition(o, "Served", 0) }); err != nil {
			return err
		}
	}
	for day := 1; day <= 3; day++ {
		title := fmt.Sprintf("Day %d", day)
		for _, site := range []thing{shop, blog} {
			if _, err := u.edit(ctx, site, map[string]any{"title": title}); err != nil {
				return err
			}
			if err := u.awaitPage(ctx, site, title); err != nil {
				return err
			}
		}
	}
	if _, err := u.rest(ctx, shop, time.Second, 3*time.Second); err != nil {
		return err
	}
	if err := u.delete(ctx, blog); err != nil {
		return err
	}
	return u.await(ctx, blog, "gone", gone)
}

// awaitPage waits until the site's page has the title.
func (u *user) awaitPage(ctx context.Context, site thing, title string) error {
	page := thing{configMaps, site.name + "-page"}
	return u.await(ctx, page, "published with title "+title, func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		html, _, _ := unstructured.NestedString(o.Object, "data", "index.html")
		return strings.Contains(html, title)
	})
}
