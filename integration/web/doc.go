// Package web looks at the daemon's web page in a real browser: headless
// Chromium, driven by browser.mjs. It has tests alone, with the build tag
// integration, and needs what install.sh installs. Pictures of the page go to
// out/web.
package web
