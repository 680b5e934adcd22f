// Types shared by the scripts, for editors and `make types-js`; never sent to a browser.

/**
 * The explorer and the page around it. `render({data, parentElement, key, host})` of explorer/main.js shows the packed
 * `Payload` of one record. Everything else goes through `host`: the explorer asks for what the payload lacks, and reads
 * and writes the link to its view. It hides the controls whose request is not in `host.answers`. There are four hosts:
 * explorer/streamlit.js (the app), training/host.js (the training page), offline/host.js (the offline page) and
 * explorer/saved.js (a page with one record). The training page and the saved page answer no requests.
 *
 * A request is answered by one packed `Answer`, passed to the function that `listen` received. It holds only what was
 * asked for, the `sentence` that it is about, and the `request` number that it answers. The exception is `edit`, which
 * is answered by rendering the payload of the edited pass, with the number in `what_if.request`. A failed request is
 * answered as well: with `failed`, one line for the reader. Answers may come late, repeatedly or unasked.
 *
 * @typedef {object} Requests  the value of each request
 * @property {{request: number, quantity: Quantity}} quantity  show this quantity now and, on a page
 *   that remembers it, for later sentences; "weights" needs no answer
 * @property {{request: number, sentence: string, quantity: Quantity, kind: Kind, layer: number | null,
 *   head: number | null}} exact  numbers in full precision; null: all layers, all heads
 * @property {{request: number, sentence: string}} effects  effect of ablating each head
 * @property {{request: number, sentence: string}} lens  what the states of both sides say
 * @property {{request: number, sentence: string, view: Link}} page  the record as a page that opens with this view
 * @property {{request: number, command: string}} edit  "+off.cross.2.0" adds an edit, "-off.cross.2.0" removes it, ""
 *   removes all
 *
 * @typedef {object} Host
 * @property {ReadonlySet<string>} answers  names of the requests that this page answers
 * @property {<Name extends keyof Requests>(name: Name, value: Requests[Name]) => void} ask
 * @property {(receive: (answer: Uint8Array) => void) => () => void} listen  start passing answers
 *   to `receive`, including those that came earlier; returns a function that stops it
 * @property {HostLink | null} link  null: the page has no link
 * @property {HeadPage | null} headPage  the page that shows one head's arithmetic; null: there is none
 *
 * @typedef {object} HostLink  the view as parameters of the page's URL
 * @property {() => Record<string, string>} read
 * @property {(parameters: Link) => void} write  null removes a parameter; all others stay
 * @property {(navigate: () => void) => () => void} listen  call `navigate` after back or forward navigation, before its
 *   payload is rendered; returns a function that stops it
 * @property {() => string} url  the complete link, to copy
 *
 * @typedef {object} HeadPage
 * @property {() => string} url  of the page, for the view that was written last
 * @property {() => void} open  open it in this window
 * @property {(click: (event: MouseEvent) => void) => () => void} listen  call `click` with clicks on other links to it;
 *   returns a function that stops it
 *
 * @typedef {{sentence: string, name: keyof Requests | "checks" | "again", request: number | null, failed?: string,
 *   quantities?: Record<string, SentQuantity>, exact?: {quantity: Quantity, kind: Kind, layer: number | null,
 *   head: number | null}, exact_numbers?: Uint8Array, effects?: boolean, page?: Uint8Array, checks?: Check[],
 *   checked?: "here", again?: Again, lens?: LensFacts & {tokens: SentToken[]}}} Answer  the numbers of a
 *   quantity are beside it, as `<quantity>_<kind>`; those of effects as `effects_<kind>`, of what the states say as
 *   `lens_<side>_<name>`: see explorer/payload.py
 * @typedef {{levels: number | null, heads: Heads, range: Record<Kind, [number, number]>, error?: number}} SentQuantity
 *   levels: null for 32-bit floats; error: largest error of these, 0 if left out
 */

/**
 * What Python sends. `bytes` of masks and numbers are beside the named values: see explorer/payload.py.
 *
 * @typedef {"encoder" | "decoder" | "cross"} Kind
 * @typedef {"encoder" | "decoder"} Side
 * @typedef {"weights" | "change" | "scores" | "norms" | "rollout"} Quantity
 * @typedef {"pieces" | "words"} Unit  single tokens, or merged into words
 *
 * @typedef {{id: number, text: string, starts_word?: boolean, special?: boolean, unknown?: boolean,
 *   probability?: number}} SentToken  of a record, see tokens.py; probability: added by explorer/data.js
 * @typedef {{name: string, passed: boolean, figure: number | null, limit: number, words: string}} Check
 * @typedef {{source: string, family: string, credit: string, not_proven: string[],
 *   compared: {what: string, max_abs_diff: number, limit: number, passed: boolean}[]}} Imported  see core/checkpoint/imported.py
 * @typedef {number | Record<Kind, number>} Heads  by kind if the sides differ, and for maps from other tools
 * @typedef {{text: string, edits: {text: string, label: string}[], problems: string[], before: number,
 *   change: number[] | null, request?: number | null, means?: {sentences: number, corpus: string} | null}} WhatIf  means: what
 *   the heads' average outputs are averaged over, if an edit uses them; text: all edits in their text form; before:
 *   log-probability of the target without edits, change: of each target token's log-probability, in nats; request: the
 *   last `edit` request that led here
 * @typedef {{translation: string, target: SentToken[], log_prob: number, search: string, own: string, problem?: string}} Again
 *   own: the translation without the edits; problem: one line if there is no translation under them
 * @typedef {{tested: number, sentences: number, rates: Record<Side, number[][]>}} LensFacts  see `lens_answer`
 *   in explorer/payload.py
 * @typedef {{command?: string, unasked?: boolean}} LensOffer  see `lens` of `payload` there
 * @typedef {Record<string, string | number | null>} Link  a view, by query parameter
 *
 * @typedef {{sentence: string, model: string, weights_sha256: string, source_text: string, translation: string,
 *   levels: number | null, heads: Heads, layers: Record<Kind, number>, source_language: string,
 *   target_language: string, search: string, given_target: boolean, error?: number,
 *   checks: Check[], unchecked?: string[], imported?: Imported | null,
 *   checked: "here" | "pending" | "elsewhere" | "never", source: SentToken[], target_in: SentToken[], target_out: SentToken[],
 *   alternatives: SentToken[][], log_probs: Uint8Array, alternative_log_probs: Uint8Array, view: Link,
 *   offered: Quantity[], quantities: Record<string, SentQuantity>, what_if?: WhatIf | null, together?: string | null, lens_offer?: LensOffer, effects_if_asked?: boolean,
 *   host?: {key: string, answers: string[], address: boolean, head_page: string | null}}} Payload  levels: null for 32-bit
 *   floats, at most `error` away from the true weights; log_probs: empty if there are no probabilities; weights_sha256: ""
 *   if unknown; layers: 0 for a kind without maps; checked: where the checks were made; unchecked: names of those that need
 *   the weights, for maps from other tools; quantities: those sent along; host: for explorer/streamlit.js; `looked_at_<kind>`: of edited passes
 */

/**
 * Decoded records and maps.
 *
 * @typedef {{label: string, parts: [string, boolean][], special: boolean, punctuation: boolean, unknown: boolean,
 *   blank: boolean, probability: number, startsWord: boolean, close: boolean, number: number,
 *   repeated: boolean}} Token
 * @typedef {{title: string, note: string, meaning: string, word: string, unused: boolean, cross: boolean}} HeadEdit  see
 *   explorer/edited.js
 * @typedef {Token & {members: number[]}} Item  a row or column, with the indices of its tokens
 * @typedef {{codes: Float32Array | Uint8Array | Uint16Array, offset: number, step: number, error: number, lo: number,
 *   hi: number}} Numbers
 *
 * @typedef {object} RecordData
 * @property {string} sentence
 * @property {string} model
 * @property {string} weightsSha256
 * @property {string} sourceText
 * @property {string} translation
 * @property {number} heads  the largest number of any kind; as a view's head, it means all heads
 * @property {Record<Kind, number>} headsOf
 * @property {Record<Kind, number>} layers
 * @property {string} sourceLanguage
 * @property {string} targetLanguage
 * @property {string} search
 * @property {boolean} givenTarget
 * @property {Check[]} checks
 * @property {"here" | "pending" | "elsewhere" | "never"} checked
 * @property {string[]} unchecked
 * @property {Imported | null} imported
 * @property {Float32Array} logProbs  of the produced tokens, in nats; empty without probabilities
 * @property {number | null} logProb  null without probabilities
 * @property {{label: string, probability: number, written: boolean, added: boolean}[][]} alternatives
 * @property {Record<"source" | "target" | "produced" | "fed", Token[]>} sides
 * @property {Record<Unit, Record<"source" | "produced" | "fed", Item[]>>} items
 * @property {Record<Kind, Uint8Array>} unmasked  one byte per cell, 1 for unmasked
 * @property {Record<Kind, Uint32Array>} cells  indices of unmasked cells
 * @property {Quantity[]} offered
 * @property {Readonly<Record<string, {heads: Record<Kind, number>, kinds: Record<Kind, Numbers>}>>} quantities
 * @property {Map<string, Float32Array>} exact
 * @property {string | null} together  group of explorers that follow each other
 * @property {WhatIf | null} whatIf
 * @property {Record<Kind, Uint16Array> | null} lookedAt  the key with the most weight of each row, [before and after the edits,
 *   layer, head, query]
 * @property {Again | null} again  the translation under the edits
 * @property {LensOffer | null} lensOffer
 * @property {boolean} effectsIfAsked  whether the effects of heads are computed only if somebody asks for them
 * @property {LensFacts & {tokens: SentToken[], encoder: SideReading, decoder: SideReading} | null} lens  what the states say
 * @property {Record<Kind, Float32Array> | null} effects  [layer, head, target token] in nats
 * @property {Map<Explorer, RecordData>} peers  records of the other explorers in the group
 * @property {Map<string, any>} maps
 *
 * @typedef {{ids: Float32Array, logitIds: Float32Array, probabilities: Float32Array, ranks: Float32Array, positions: number,
 *   best: number}} SideReading  [layer, position, rank], ids as places in `tokens`; ranks: [layer, position, target token]
 *
 * @typedef {{entropy: Float32Array, peaks: Float32Array, received: Float32Array, mostReceived: number, peak: number,
 *   meanEntropy: number, distance: number, roles: Record<string, number>}} Measures  entropy of each row, in bits
 * @typedef {{kind: Kind, quantity: Quantity, rows: Item[], columns: Item[], queries: number, keys: number, lo: number,
 *   hi: number, signed: boolean, sumsToOne: boolean, values: Float32Array, unmasked: Uint8Array, error: number,
 *   edit: HeadEdit | null, measured?: Measures, image?: {name: string, data: ImageData},
 *   lines?: {name: string, lines: [number, number, number][], unmasked: number}}} AttentionMap  cell: query * keys + key
 */

/**
 * The explorer's state.
 *
 * @typedef {{query: number | null, key: number | null}} Place
 *
 * @typedef {object} View  everything a link stores: frozen, replaced on each change
 * @property {Kind} kind
 * @property {number} layer  the number of layers means all combined
 * @property {number} head  the number of heads means all combined
 * @property {"map" | "lines"} picture
 * @property {Unit} unit
 * @property {Set<string>} hide
 * @property {string} sort
 * @property {boolean} wholeTranslation  ablation effects on the whole translation, even if a word is pinned
 * @property {"mean" | "max"} combine
 * @property {Quantity} quantity
 * @property {number} mass  percent
 * @property {"folded" | "encoder" | "both"} states  sides of which all layers say their words
 * @property {Readonly<Place>} pinned  row, column or cell
 * @property {{head: number | null, everyLayer: boolean} | null} beforeRollout
 *
 * @typedef {{left: number, top: number, size: number}} Square
 * @typedef {{size: number, height: number}} Captions
 * @typedef {{layer: number, head: number, exists: boolean, word: string, number: string, meaning: string,
 *   mark: string, edited: string}} OverviewCell  mark: the position of a repeated word; edited: what the edits changed in it
 * @typedef {{name: string, cells: OverviewCell[], canvas: HTMLCanvasElement}} Overview
 * @typedef {{token: Token, text: string, width: number}} Label
 * @typedef {{left: number, top: number, cell: number, gridWidth: number, gridHeight: number, fontSize: number,
 *   angle: number, every: number, rowLabels: Label[], columnLabels: Label[], first: {query: number, key: number},
 *   shown: {queries: number, keys: number}, width: number, height: number}} Grid  in CSS pixels of the canvas
 * @typedef {Grid & {kind: Kind, small: boolean, unzoomed: number, numbered: boolean, gap: number, bars: boolean,
 *   bare?: boolean, strips?: boolean}} MapGeometry  bare: without labels; strips: false for none beside the rows
 * @typedef {{size: string, fitted: string, room: number, tallest: number, presented: number, reserved: number, tickWidth: number, bars: boolean, means: boolean,
 *   zoom: number,
 *   places: {places: Square[], width: number, height: number, captions: Captions} | null,
 *   geometries: Partial<Record<Kind, MapGeometry>>, linesGeometry: any,
 *   overviews: Partial<Record<Kind, Overview>>}} Layout
 * @typedef {{root: HTMLElement, parts: Record<string, any>, base: HTMLCanvasElement,
 *   words: {source: WordRow, target: WordRow, strips?: string} | null, thumbnails: any[],
 *   headLabels: HTMLElement[], orderLabel: HTMLElement | null, layerLabels: HTMLElement[],
 *   overviewMaps: HTMLCanvasElement | null, overviewFocus: HTMLCanvasElement | null, overview: Overview | null,
 *   columns: HTMLElement[], stepShown: number, painted: number}} Dom
 * @typedef {{button: HTMLButtonElement, shown: string}[]} WordRow
 * @typedef {{preview: Readonly<Place & {note: string | null}>, step: number, stepping: boolean, playing: number,
 *   wanted: Quantity}} Now
 *
 * @typedef {object} Explorer
 * @property {string} key
 * @property {Host} host
 * @property {Uint8Array | null} bytes
 * @property {Map<string, Answer>} early  answers about a record that is not shown yet, by request
 * @property {Readonly<RecordData>} data
 * @property {Theme} theme
 * @property {Readonly<View>} view
 * @property {Readonly<View>[]} past
 * @property {Now} now
 * @property {Layout} layout
 * @property {Dom} dom
 * @property {{chosen: boolean, given: string, returning: boolean, turn: number | undefined, suggested: boolean, asked: string, readFor: string,
 *   repair: {text: string, from: number, isGone: boolean} | null}} memory
 * @property {Record<string, {number: number, take: (data: RecordData, answer: Answer) => boolean, giveUp: () => void,
 *   isQuiet: boolean, timer: number}>} requests  pending requests, by name
 * @property {number} warming
 * @property {number} stepTimer
 * @property {number} stripTimer
 * @property {number} linkTimer
 * @property {() => void} [destroy]
 */

/**
 * Drawing.
 *
 * @typedef {{css: string[], ink: string[], pixel: Uint32Array}} Table  see look/palette.py
 * @typedef {{name: string, ramp: Table, signed: Table, maskedPixel: number, hiddenPixel: number, font: string,
 *   signature: string, page: string, ink: string, ink2: string, ink3: string, line: string, well: string, wrong: string, said: string,
 *   hatch: string, "hatch-ground": string}} Theme
 * @typedef {CanvasRenderingContext2D & {isVector?: boolean}} Drawing  a canvas, an SvgContext or a PdfContext
 * @typedef {{theme: Theme, title: string, about?: string, width: number, height: number, before?: number,
 *   mm?: number | null, draw: (context: Drawing) => void}} PictureFile  a picture to save, in px; about: its description in
 *   an SVG; before: space left of its origin; mm: the width to print it at
 */

/**
 * The row of maps and the search tree.
 *
 * @typedef {{site: string, layers: number[], heads: number, queries: Token[], keys: Token[], cells: number,
 *   opened: {layer: number, head: number, turn: number, names: {layer: string, head: string}} | null,
 *   words: {query: string, key: string}, titles?: {query: string, key: string}, unmasked: Uint8Array,
 *   outlined: number | null, covered: number[], sealed: boolean, pinned: [number, number] | null, about: string, maps: any[]}} RowData
 * @typedef {{key: string, pathname: string, root: HTMLElement, parts: Record<string, any>, bytes: Uint8Array | null,
 *   data: RowData, theme: Theme, layer: number, head: number, pinned: Readonly<Place>, preview: Readonly<Place>,
 *   maps: any[], geometry: any, size: string, painted: number, destroy?: () => void}} RowView
 * @typedef {{parent: number | null, id: number, step: number, rank: number, log_prob: number, total: number,
 *   score: number, status: string, forced: boolean, next: [number, number][], probability: number, ended: boolean,
 *   winner: boolean, childless: boolean, finalRank: number}} TreeNode
 * @typedef {{tree: string, beam: number, alpha: number, limit: number, first: number, pinned: number,
 *   tokens: Record<string, {label: string, special: boolean, unknown: boolean, end: boolean}>, nodes: TreeNode[],
 *   hypotheses: {text: string, end: number, log_prob: number, score: number}[],
 *   meanings: Record<string, string>}} TreeData
 * @typedef {{root: HTMLElement, parts: Record<string, any>, data: TreeData, pinned: number, drawn: SVGElement[],
 *   hovered: number | null, painted: number, timer: number, tell: Record<string, (value: any) => void>,
 *   fade: () => void, destroy?: () => void}} TreeView
 */

/**
 * Copying and pushing states: see views/states/ in Python. `about` names the passes and the side; `turn` counts the visitor's
 * choices. Pairs are positions [of the donor, of the receiver]. Words of the states are [word, probability] by layer and
 * position, null without a lens. A copied head has no `from` and `to`. An `after` is null before there is a copy.
 *
 * @typedef {{name: string, tokens: SentToken[], words: [string, number][][] | null, source: string,
 *   translation: string}} StatesSide  source: the sentence, on both sides
 * @typedef {{kind?: Kind, layer: number, head?: number, from?: number, to?: number}} StateCopy
 * @typedef {{share: number | null, own: string, other: string, before: number, now: number, goal: number}} CopyMeasure  nats: of
 *   the receiver before and after the copy, and of the donor
 * @typedef {{mode: "copy", key: string, about: string, turn: number, way: "restore" | "damage", side: "encoder" | "decoder",
 *   layers: number, donor: StatesSide, receiver: StatesSide, pairs: [number, number][], copy: StateCopy | null,
 *   after: [string, number][][] | null, after_text: string | null, measure: CopyMeasure | null, problem: string}} CopyData
 * @typedef {{mode: "push", key: string, turn: number, source: string, tokens: SentToken[], layers: number, typed: string | null, problem: string,
 *   push: {position: number, layer: number, old: {id: number, text: string}, new: {id: number, text: string}, strength: number,
 *   length: number} | null, olds: {id: number, text: string}[], news: {text: string}[], curve: {strengths: number[],
 *   old: number[], new: number[], random_old: number[][], random_new: number[][]}, before: string, after: string, random: string}} PushData
 * @typedef {{about: string, problem: string, cells: (number | null)[][], heads: Record<string, number[][]>}} CopyPictures
 * @typedef {{id: string, name: string, dir: string, corner?: string, rows: string[], columns: {text: string, strong?: boolean}[],
 *   cells: {text: string, label: string, looks: string, line: (string | number)[], ground?: string, opacity?: number, ink?: string}[][],
 *   press: (row: number, column: number, byKey: boolean) => void, rest?: number[]}} StateGrid  name: announced; line: in a CSV file
 * @typedef {{root: HTMLElement, parts: Record<string, any>, data: any, theme: Theme | null, ask: (chosen: any) => void,
 *   tokens: Record<string, any[]> | null, grids: Record<string, HTMLElement> | null, status: HTMLElement | null,
 *   picked: {layer: number, from: number} | null, pictures: CopyPictures | null,
 *   drop: (layer: number, from: number, to: number) => void, strength?: number, canvas?: HTMLCanvasElement,
 *   destroy?: () => void}} StatesView
 */

/**
 * The atlas of heads: see atlas/payload.py. N heads, counted kind by kind, layer by layer.
 *
 * @typedef {{key: string, label: string, unit: "nats" | "points" | "share" | "place", unit_words: string,
 *   signed: boolean, places: number, explanation: string, where: string, no_effect: Set<number> | null, lowest_first: boolean,
 *   values: Float32Array}} AtlasMeasure  values: [N, 3], a value and the bounds of its interval, NaN: not measured
 * @typedef {{measure: AtlasMeasure, low: number, high: number, at: (value: number) => number}} AtlasScale  at: 0..1
 * @typedef {{kind: string, order: number[], loss?: number[][], bleu?: number[][]}} PruningCurve
 *
 * @typedef {object} AtlasData
 * @property {number} heads  per layer
 * @property {Record<Kind, number>} layers
 * @property {Record<Kind, string>} kinds  names in a sentence
 * @property {{kind: Kind, layer: number, head: number}[]} places  [N]
 * @property {Record<Kind, number>} starts  the first head of each kind
 * @property {AtlasMeasure[]} measures
 * @property {Record<string, AtlasMeasure>} byKey
 * @property {number[]} distances
 * @property {Float32Array} distance  [N, distances]
 * @property {Record<Kind, string[]>} roles
 * @property {Record<Kind, Float32Array>} roleValues  [role, head of the kind, 7]: see roles.js
 * @property {Record<string, string>} definitions
 * @property {number} margin
 * @property {number} floor
 * @property {number} rows
 * @property {string[]} reordered
 * @property {number} level
 * @property {string} headline
 * @property {string[][]} labels  [N]
 * @property {string[][]} stories  [N]
 * @property {Record<string, number[]>} own  loss and BLEU of the whole network
 * @property {[string, number, number][][]} tokens  [N]: text, change, count
 * @property {({covers: number[][], needs: number[][], more: number[], tested: number, by_chance:
 *   string} | null)[]} pairs [N]; covers, needs: [other head, value, lower and upper bound,
 *   decimals]; more: how many heads each list leaves out
 * @property {{order: number, pairs: number}} samples  sentences behind the order of removal and the pairs
 * @property {number} least  the fewest occurrences of a listed token
 * @property {PruningCurve[]} pruning
 * @property {any} alignment
 * @property {number[] | null} partner  [N], -1: none
 * @property {[string, string][]} quoted
 * @property {Float32Array | null} strength  [N, quoted]
 * @property {Uint8Array | undefined} decile  [N, quoted]
 * @property {Int16Array | null} cell  [N, quoted, 2]
 * @property {any} origin
 * @property {string} network  checkpoint, with author and licence of imported weights
 * @property {{head: number, measure: string, x: string, y: string, curve: string, asked: string[],
 *   defaults: Record<string, string>, turn: number, in_url: boolean}} opened
 * @property {Record<string, string>} link
 * @property {Record<string, string> | null} counterpart
 * @property {(number | null)[][] | null} unmatched  [N][3]: attention shared with heads that are not matched, and its bounds
 * @property {boolean} training  whether the network has training snapshots
 *
 * @typedef {{key: string, root: HTMLElement, parts: Record<string, any>, pathname: string, bytes: Uint8Array | null,
 *   data: AtlasData, theme: Theme, chosen: {head: number, measure: string, x: string, y: string, curve: string},
 *   hovered: number | null, turns: Map<string, number>, geometries: Record<string, any>,
 *   bases: Record<"heads" | "scatter", HTMLCanvasElement>, size: string, painted: number,
 *   open: (link: {page: string, query: string}) => void, destroy?: () => void}} AtlasView
 */

/**
 * The training page.
 *
 * @typedef {{source: SentToken[], target_in: SentToken[], target_out: SentToken[], source_text: string,
 *   translation: string}} TrainingSentence
 * @typedef {{name: string, short: string, meaning: string, chance: number | null,
 *   level: number[][] | null}} TrainingMeasure  level: [layer][head], what a head with the role must reach
 * @typedef {{kind: Kind, measure: string, short: string, layer: number, head: number, point: number, last: number,
 *   diagonal: number | null}} TrainingMark  see core/analysis/appearance.py
 * @typedef {{name: string, languages: [string, string], heads: number, layers: Record<Kind, number>, steps: number[],
 *   loss: number[], quality: {title: string, meaning: string, values: number[], share: boolean},
 *   compared: {name: string, loss: number[], quality: number[]} | null, live: boolean, sentences: TrainingSentence[], measures: Record<Kind, TrainingMeasure[]>,
 *   marks: TrainingMark[], opened?: Link & {sentence: number, step: number | null, start?: number | null}}} Training  what Python sends; `bytes`
 *   of maps, masks and measures are beside the named values: see training/payload.py
 * @typedef {TrainingMeasure & {values: Float32Array}} DecodedMeasure  [point, layer, head]
 * @typedef {Omit<Training, "measures"> & {measures: Record<Kind, DecodedMeasure[]>, points: number, lastStep: number}} Run
 * @typedef {{title: string, meaning: string, unit: string, curve: number[] | null, others: number[][],
 *   ofHead: boolean, chance: number | null, level: number | null, marks: (TrainingMark & {value: number})[], logarithmic: boolean,
 *   low: number, high: number, ticks: {value: number, text: string}[], shown: (value: number) => string,
 *   aside: string, empty?: string}} Lane  curve: a value per point; empty: the text shown without a curve
 * @typedef {{width: number, height: number, left: number, plot: number, tops: number[], bottom: number, narrow: boolean,
 *   points: number}} TimelineGeometry
 * @typedef {{key: string, parent: HTMLElement, root: HTMLElement, parts: Record<string, any>,
 *   base: HTMLCanvasElement, bytes: Uint8Array | null, run: Run, theme: Theme, given: string, sentence: number,
 *   start: number, point: number, link: Link, first: string, lanes: Lane[], geometry: TimelineGeometry, size: string, playing: number,
 *   linkTimer: number, painted: number, explorerGone: () => void, host: Host, destroy?: () => void}} TrainingView
 */

/**
 * The offline page.
 *
 * @typedef {{title: string, source: string, look_for: string, measured: [string, string, string], tokens: string,
 *   view: Record<string, string>}} TourStop  measured: before the share, the share, and after it; see export/tour.py
 *
 * @typedef {object} Pass  of a lesson
 * @property {string} text
 * @property {string} translation
 * @property {{source: string, target: string}} languages
 * @property {SentToken[]} source
 * @property {SentToken[]} targetIn
 * @property {SentToken[]} targetOut
 * @property {Record<Kind, number>} heads
 * @property {boolean} scaled  whether scores are divided by √d_k
 * @property {"" | "-bias" | "-nothing"} order  how positions are told apart: by a table, or a bias by distance
 * @property {Record<Kind, number>} layers
 * @property {number[]} probabilities  of the target's tokens
 * @property {Record<Kind, Float32Array>} maps  [layer, head, query, key], 0 where masked
 * @property {Record<Kind, Uint8Array>} masks  [query, key], 1 for unmasked
 * @property {Float32Array} positions  what is added to the source tokens, [token, dimension]
 *
 * @typedef {{name: string, short: string, note: string}} MapName
 * @typedef {{data: Uint8Array, parentElement: HTMLElement, key: string}} RowShown
 *
 * @typedef {object} LessonTools  what a lesson needs from the page
 * @property {HTMLElement} mapRow  markup of a row of maps, to clone
 * @property {(shown: RowShown) => void} render  shows a row of maps
 * @property {(edits: string) => Promise<{pass: Pass, again: string | null}>} edited  the pass of the same target under
 *   edits, and the network's own translation under them; rejects with one line
 * @property {Record<string, LessonTable>} tables  of each lesson
 *
 * @typedef {{texts: Record<string, string>, rules: Record<string, any>}} LessonTable  as `app.lessons.texts.table` returns
 *   it: texts by dotted key, and thresholds, verdicts and edits
 * @typedef {(key: string, values?: Record<string, string | number>) => string} Say  a lesson's text, filled in
 *
 * @typedef {{id: number, piece: string, text: string, starts_word: boolean, special: boolean, unknown: boolean}} RecordToken
 *
 * @typedef {object} PassRecord  like TranslationRecord in core/record/record.py; S source tokens, T target tokens
 * @property {string} id
 * @property {string} model
 * @property {string} weightsSha256
 * @property {string} sourceLanguage
 * @property {string} targetLanguage
 * @property {{beam: number, lengthPenalty: number} | null} decode  null for a given target
 * @property {string} search
 * @property {string} sourceText
 * @property {string} translation
 * @property {RecordToken[]} source
 * @property {RecordToken[]} targetIn
 * @property {RecordToken[]} targetOut
 * @property {Record<Kind, number>} heads
 * @property {Record<Kind, number>} layers
 * @property {Float32Array} encoder  [layer, head, query, key], like `decoder` and `cross`
 * @property {Float32Array} decoder
 * @property {Float32Array} cross
 * @property {Record<Kind, Uint8Array>} masks  [query, key], 1: may attend
 * @property {Float32Array} sourcePositions  [S, d_model]
 * @property {Float32Array} targetPositions  [T, d_model]
 * @property {Float32Array} logProbs  [T], in nats
 * @property {RecordToken[][]} alternatives  [T, K], best first
 * @property {Float32Array} alternativeLogProbs  [T, K]
 * @property {{text: string, ids: number[], logProb: number, score: number}[]} hypotheses
 * @property {Check[]} checks
 * @property {import("./network/edits.js").Edits} edits
 * @property {string} editsText  all edits in their text form, or ""
 */
