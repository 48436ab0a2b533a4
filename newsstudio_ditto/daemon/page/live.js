// The live presenter: sound goes out over a WebSocket, fragmented MP4 comes back into a media source.

const RATE_HZ = 16000;
const CHUNK = 1600; // 0.1 s
const FARTHEST_BEHIND_S = 2.5;
const KEPT_S = 20;
const GRACE_MS = 4000; // for what has been said and not been shown yet

function toPcm(samples) {
  const pcm = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i += 1) pcm[i] = Math.max(-1, Math.min(1, samples[i])) * 32767;
  return pcm.buffer;
}

export class LiveTalk {
  constructor(video, tell) {
    this.video = video;
    this.tell = tell;
    this.waiting = [];
  }

  start(avatarId) {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/api/presenter/stream?avatarId=${encodeURIComponent(avatarId)}`);
    this.socket.binaryType = "arraybuffer";
    return new Promise((resolve, reject) => {
      this.ended = new Promise((over) => {
        this.socket.onclose = () => {
          this.stopMicrophone();
          over();
          reject(new Error(this.problem || "The live session could not be opened."));
        };
      });
      this.socket.onmessage = (event) => {
        if (typeof event.data === "string") this.hear(JSON.parse(event.data), resolve);
        else this.append(event.data);
      };
    });
  }

  hear(message, onReady) {
    if (message.type === "ready") {
      this.open(message.mime);
      this.tell(message.notice || `Listening. The presenter answers after ${(message.lookAheadMs / 1000).toFixed(1)} s.`);
      onReady(message);
    } else if (message.type === "problem") {
      this.problem = `${message.what}. ${message.hint}`;
      this.tell(this.problem);
    } else if (message.type === "report") {
      this.report = message;
      this.tell(reportInWords(message));
    }
  }

  open(mime) {
    this.source = new MediaSource();
    this.video.src = URL.createObjectURL(this.source);
    this.source.addEventListener("sourceopen", () => {
      this.buffer = this.source.addSourceBuffer(mime);
      this.buffer.addEventListener("updateend", () => this.feed());
      this.feed();
    }, { once: true });
    this.video.play().catch(() => this.tell("Press play on the picture to begin."));
  }

  append(piece) {
    this.waiting.push(new Uint8Array(piece));
    this.feed();
  }

  feed() {
    const { buffer, video } = this;
    if (!buffer || buffer.updating || this.source.readyState !== "open") return;
    if (buffer.buffered.length) {
      const end = buffer.buffered.end(buffer.buffered.length - 1);
      if (end - video.currentTime > FARTHEST_BEHIND_S && !this.isSaying) video.currentTime = end - 0.3;
      if (video.currentTime - buffer.buffered.start(0) > 2 * KEPT_S) {
        buffer.remove(0, video.currentTime - KEPT_S);
        return;
      }
    }
    if (!this.waiting.length) return;
    const whole = new Uint8Array(this.waiting.reduce((sum, piece) => sum + piece.length, 0));
    let place = 0;
    for (const piece of this.waiting) { whole.set(piece, place); place += piece.length; }
    this.waiting = [];
    buffer.appendBuffer(whole);
  }

  get isOpen() { return this.socket?.readyState === WebSocket.OPEN; }

  send(samples) { if (this.isOpen) this.socket.send(toPcm(samples)); }

  order(type) { if (this.isOpen) this.socket.send(JSON.stringify({ type })); }

  async startMicrophone() {
    this.microphone = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true } });
    this.context = new AudioContext({ sampleRate: RATE_HZ });
    await this.context.audioWorklet.addModule("/static/mic.js");
    const node = new AudioWorkletNode(this.context, "microphone");
    node.port.onmessage = (event) => this.send(event.data);
    this.context.createMediaStreamSource(this.microphone).connect(node);
  }

  stopMicrophone() {
    if (!this.microphone) return;
    for (const track of this.microphone.getTracks()) track.stop();
    this.context.close();
    this.microphone = null;
    this.order("end");
  }

  // Sends a recording at the pace of speech, as if it were said now.
  async say(blob) {
    const offline = new OfflineAudioContext(1, 1, RATE_HZ);
    const sound = (await offline.decodeAudioData(await blob.arrayBuffer())).getChannelData(0);
    this.isSaying = true;
    const started = performance.now();
    for (let place = 0; place < sound.length && this.isOpen; place += CHUNK) {
      this.send(sound.subarray(place, place + CHUNK));
      const due = started + (1000 * (place + CHUNK)) / RATE_HZ;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    }
    this.order("end");
    this.isSaying = false;
  }

  async stop() {
    this.stopMicrophone();
    this.order("stop");
    await Promise.race([this.ended, new Promise((resolve) => setTimeout(resolve, GRACE_MS))]);
    if (this.isOpen) {
      this.socket.close();
      this.tell("Ended before everything was said: this device is slower than speech.");
      await this.ended;
    }
    if (this.source?.readyState === "open" && !this.buffer?.updating) this.source.endOfStream();
  }
}

function reportInWords(report) {
  if (!report.utterances) return "The live session has ended.";
  const first = (report.firstFrameLatencyMs[0] / 1000).toFixed(2);
  const factor = report.realTimeFactor.toFixed(2);
  const slow = report.slowerThanRealTime ? `, slower than real time on ${report.device}` : "";
  return `Ended. First frame after ${first} s; ${factor} seconds of video a second${slow}.`;
}
