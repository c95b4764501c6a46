// A page of a folder (file://) may start no worker. Its search then runs in a hidden frame instead, which speaks as one.
if (location.protocol === "file:") {
  self.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.#load(one)));
      this.#ready = this.#load(url);
    }

    #load(url) {
      const script = this.#frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href).href;
      return new Promise((loaded, failed) => {
        script.onload = loaded;
        script.onerror = failed;
        this.#frame.contentDocument.body.append(script);
      });
    }

    async postMessage(data) {
      await this.#ready;
      this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
