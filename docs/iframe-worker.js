// Search on pages that are opened as files, where browsers start no workers: a
// hidden frame takes a worker's place. The theme would fetch a script for it.
if (location.protocol === 'file:') {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const element = document.createElement('iframe');
      element.hidden = true;
      document.body.append(element);
      const page = element.contentDocument;
      page.open();
      page.write('<body></body>');
      page.close();
      this.frame = element.contentWindow;
      this.frame.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent('message', { data }));
      const script = page.createElement('script');
      script.src = url;
      this.loaded = new Promise((done) => (script.onload = done));
      page.body.append(script);
    }

    postMessage(data) {
      const message = new MessageEvent('message', { data });
      this.loaded.then(() => this.frame.dispatchEvent(message));
    }
  };
}
