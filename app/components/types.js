// The shapes of what the scripts pass to each other, for editors and for `make types-js`; nothing here reaches a browser.

/**
 * What Python sends.
 *
 * @typedef {"encoder" | "decoder" | "cross"} Kind
 * @typedef {"weights" | "change" | "scores" | "norms" | "rollout"} Quantity
 * @typedef {"pieces" | "words"} Unit  single tokens, or those of a word together
 *
 * @typedef {object} SentToken  see tokens.py
 * @property {string} label
 * @property {[string, boolean][]} [parts]
 * @property {boolean} start
 * @property {boolean} special
 * @property {boolean} unknown
 * @property {boolean} punctuation
 * @property {number} [p]  probability
 *
 * @typedef {object} Check
 * @property {string} name
 * @property {boolean} passed
 * @property {number | null} figure
 * @property {number} limit
 * @property {string} words
 *
 * @typedef {object} Payload  see explorer/payload.py; the bytes of masks and numbers stand beside these, by name
 * @property {string} sentence
 * @property {string} model
 * @property {string} weights_sha256
 * @property {string} source_text
 * @property {string} translation
 * @property {number | null} levels  null: 32-bit floats
 * @property {number} heads
 * @property {Record<Kind, number>} layers
 * @property {string} source_language
 * @property {string} target_language
 * @property {string} search
 * @property {number} log_prob  nats
 * @property {Check[]} checks
 * @property {"here" | "saved" | "edited"} verdict
 * @property {SentToken[]} source
 * @property {SentToken[]} target_in
 * @property {SentToken[]} target_out
 * @property {[string, number, 0 | 1 | 2][][]} alternatives
 * @property {boolean} address
 * @property {string | null} inside
 * @property {Link} view
 * @property {Quantity[]} offered
 * @property {Record<string, {levels: number | null, heads: number, range: Record<Kind, [number, number]>}>} quantities
 * @property {boolean} alone
 * @property {Record<string, string>} failed
 * @property {{quantity: Quantity, kind: Kind, layer: number | null, head: number | null}} [exact]
 * @property {Uint8Array} [exact_numbers]
 * @property {Uint8Array} [page]
 * @property {string | null} [together]
 * @property {WhatIf | null} [what_if]
 * @property {boolean} [offers_effects]
 * @property {boolean} [effects]
 *
 * @typedef {object} WhatIf  the changes that the pass was made under
 * @property {string} text  all of them, as a link holds them
 * @property {{text: string, label: string}[]} edits
 * @property {string[]} problems
 * @property {number} before  log-probability of the target without them, in nats
 * @property {number[] | null} change  of each target token's log-probability
 */

/**
 * What is made of it, one frozen object a record.
 *
 * @typedef {object} Token
 * @property {string} label
 * @property {[string, boolean][]} parts
 * @property {boolean} special
 * @property {boolean} punctuation
 * @property {boolean} unknown
 * @property {boolean} blank
 * @property {number} probability
 * @property {boolean} startsWord
 * @property {boolean} close
 * @property {number} number
 * @property {boolean} repeated
 *
 * @typedef {Token & {members: number[]}} Item  what one row or column stands for
 *
 * @typedef {object} Numbers
 * @property {Float32Array | Uint8Array | Uint16Array} codes
 * @property {number} offset
 * @property {number} step
 * @property {number} error
 * @property {number} lo
 * @property {number} hi
 *
 * @typedef {object} RecordData
 * @property {string} sentence
 * @property {string} model
 * @property {string} weightsSha256
 * @property {string} sourceText
 * @property {string} translation
 * @property {number} heads
 * @property {Record<Kind, number>} layers
 * @property {string} sourceLanguage
 * @property {string} targetLanguage
 * @property {string} search
 * @property {Check[]} checks
 * @property {string} verdict
 * @property {boolean} address
 * @property {string | null} inside
 * @property {number} logProb
 * @property {{label: string, probability: number, written: boolean, added: boolean}[][]} alternatives
 * @property {Record<"source" | "target" | "produced" | "fed", Token[]>} sides
 * @property {Record<Unit, Record<"source" | "produced" | "fed", Item[]>>} items
 * @property {Record<Kind, Uint8Array>} unmasked  a byte a cell, 1 for unmasked
 * @property {Record<Kind, Uint32Array>} cells  the unmasked ones
 * @property {Quantity[]} offered
 * @property {Readonly<Record<string, {heads: number, kinds: Record<Kind, Numbers>}>>} quantities
 * @property {Map<string, Float32Array>} exact
 * @property {Uint8Array | null} page
 * @property {Record<string, string>} failed
 * @property {boolean} alone
 * @property {string | null} together  the group whose explorers follow each other
 * @property {WhatIf | null} whatIf
 * @property {boolean} offersEffects
 * @property {Record<Kind, Float32Array> | null} effects  [layer, head, target token] in nats
 * @property {Map<Explorer, RecordData>} beside  of the explorers that are shown together with this one
 * @property {Map<string, any>} maps
 *
 * @typedef {object} AttentionMap  one map as it is shown, by query * keys + key
 * @property {Kind} kind
 * @property {Quantity} quantity
 * @property {Item[]} rows
 * @property {Item[]} columns
 * @property {number} queries
 * @property {number} keys
 * @property {number} lo
 * @property {number} hi
 * @property {boolean} signed
 * @property {boolean} sumsToOne
 * @property {Float32Array} values
 * @property {Uint8Array} unmasked
 * @property {number} error
 * @property {Measures} [measured]
 * @property {{name: string, lines: [number, number, number][], unmasked: number}} [lines]
 * @property {{name: string, data: ImageData}} [image]
 *
 * @typedef {object} Measures
 * @property {Float32Array} entropy  of each row, in bits
 * @property {Float32Array} peaks
 * @property {Float32Array} received
 * @property {number} mostReceived
 * @property {number} peak
 * @property {number} meanEntropy
 * @property {number} distance
 * @property {Record<string, number>} roles
 */

/**
 * The explorer's state.
 *
 * @typedef {object} Place
 * @property {number | null} query
 * @property {number | null} key
 *
 * @typedef {object} View  what a link holds: frozen, a new one for each change
 * @property {Kind} kind
 * @property {number} layer  the number of layers stands for all together
 * @property {number} head  likewise
 * @property {"map" | "lines"} picture
 * @property {Unit} unit
 * @property {Set<string>} hide
 * @property {string} sort
 * @property {boolean} whole  effects of heads on the whole translation, also where a word is pinned
 * @property {"mean" | "max"} combine
 * @property {Quantity} quantity
 * @property {number} mass  percent
 * @property {Readonly<Place>} pinned  the pinned row, column or cell
 * @property {{head: number | null, everyLayer: boolean} | null} behind
 *
 * @typedef {Record<string, string | number | null>} Link  a view by the names of the address
 *
 * @typedef {object} Layout
 * @property {string} size
 * @property {number} room
 * @property {number} tallest
 * @property {number} reserved
 * @property {number} tickWidth
 * @property {number} zoom
 * @property {{places: Square[], width: number, height: number, captions: Captions} | null} places
 * @property {Partial<Record<Kind, MapGeometry>>} geometries
 * @property {any} linesGeometry
 * @property {Partial<Record<Kind, Overview>>} overviews
 *
 * @typedef {object} Square
 * @property {number} left
 * @property {number} top
 * @property {number} size
 *
 * @typedef {object} Captions
 * @property {number} size
 * @property {number} height
 *
 * @typedef {object} OverviewCell
 * @property {number} layer
 * @property {number} head
 * @property {boolean} exists
 * @property {string} word
 * @property {string} number
 * @property {string} meaning
 * @property {string} mark  the number of a repeated word
 *
 * @typedef {object} Overview
 * @property {string} name
 * @property {OverviewCell[]} cells
 * @property {HTMLCanvasElement} canvas
 *
 * @typedef {object} Label
 * @property {Token} token
 * @property {string} text
 * @property {number} width
 *
 * @typedef {object} Grid  where the cells of a map stand, in CSS pixels of its canvas
 * @property {number} left
 * @property {number} top
 * @property {number} cell
 * @property {number} gridWidth
 * @property {number} gridHeight
 * @property {number} fontSize
 * @property {number} angle
 * @property {number} every
 * @property {Label[]} rowLabels
 * @property {Label[]} columnLabels
 * @property {{query: number, key: number}} first
 * @property {{queries: number, keys: number}} shown
 * @property {number} width
 * @property {number} height
 *
 * @typedef {Grid & {kind: Kind, small: boolean, whole: number, numbered: boolean, gap: number}} MapGeometry
 *
 * @typedef {object} Dom
 * @property {HTMLElement} root
 * @property {Record<string, any>} parts
 * @property {HTMLCanvasElement} base
 * @property {Record<"source" | "target", {button: HTMLButtonElement, shown: string}[]> | null} words
 * @property {any[]} thumbnails
 * @property {HTMLElement[]} headLabels
 * @property {HTMLElement | null} orderLabel
 * @property {HTMLElement[]} layerLabels
 * @property {HTMLCanvasElement | null} overviewMaps
 * @property {HTMLCanvasElement | null} overviewFocus
 * @property {Overview | null} overview
 * @property {number} stepShown
 * @property {number} painted
 *
 * @typedef {object} Now
 * @property {Readonly<Place & {note: string | null}>} preview
 * @property {number} step
 * @property {boolean} stepping
 * @property {number} playing
 * @property {Quantity} wanted
 *
 * @typedef {object} Explorer
 * @property {string} key
 * @property {Uint8Array | null} bytes
 * @property {Readonly<RecordData>} data
 * @property {Theme} theme
 * @property {Readonly<View>} view
 * @property {Readonly<View>[]} past
 * @property {Now} now
 * @property {Layout} layout
 * @property {Dom} dom
 * @property {{chosen: boolean, given: string, returning: boolean}} memory
 * @property {(name: string, value: any) => void} ask  for what Python is to keep
 * @property {(name: string, value: any) => void} tell  what was done just now
 * @property {Record<string, {take: (data: RecordData) => boolean, giveUp: () => void, timer: number}>} requests
 * @property {number} warming
 * @property {number} addressTimer
 * @property {string} pathname
 * @property {() => void} [destroy]
 */

/**
 * What is drawn with.
 *
 * @typedef {object} Table  see look/palette.py
 * @property {string[]} css
 * @property {string[]} ink
 * @property {Uint32Array} pixel
 *
 * @typedef {{name: string, ramp: Table, signed: Table, maskedPixel: number, hiddenPixel: number, font: string,
 *   signature: string, page: string, ink: string, ink2: string, ink3: string, line: string, well: string,
 *   hatch: string, "hatch-ground": string}} Theme
 *
 * @typedef {CanvasRenderingContext2D & {isVector?: boolean}} Drawing  a canvas, or a file that is drawn like one
 */

/**
 * The other canvases.
 *
 * @typedef {object} RowData
 * @property {string} site
 * @property {{layer: number, head: number, turn: number, names: {layer: string, head: string}} | null} opened
 * @property {number[]} layers
 * @property {number} heads
 * @property {Token[]} queries
 * @property {Token[]} keys
 * @property {{query: string, key: string}} words
 * @property {number} cells
 * @property {Uint8Array} unmasked
 * @property {any[]} maps
 *
 * @typedef {object} RowView
 * @property {string} key
 * @property {string} pathname
 * @property {HTMLElement} root
 * @property {Record<string, any>} parts
 * @property {Uint8Array | null} bytes
 * @property {RowData} data
 * @property {Theme} theme
 * @property {number} layer
 * @property {number} head
 * @property {Readonly<Place>} pinned
 * @property {Readonly<Place>} preview
 * @property {any[]} maps
 * @property {any} geometry
 * @property {string} size
 * @property {number} painted
 * @property {() => void} [destroy]
 *
 * @typedef {object} TreeNode
 * @property {number | null} parent
 * @property {number} id
 * @property {number} step
 * @property {number} rank
 * @property {number} log_prob
 * @property {number} total
 * @property {number} score
 * @property {string} status
 * @property {boolean} forced
 * @property {[number, number][]} next
 * @property {number} probability
 * @property {boolean} ended
 * @property {boolean} winner
 * @property {boolean} childless
 * @property {number} place
 *
 * @typedef {object} TreeData
 * @property {string} tree
 * @property {number} beam
 * @property {number} alpha
 * @property {number} limit
 * @property {number} first
 * @property {number} pinned
 * @property {Record<string, {label: string, special: boolean, unknown: boolean, end: boolean}>} tokens
 * @property {TreeNode[]} nodes
 * @property {{text: string, end: number, log_prob: number, score: number}[]} hypotheses
 * @property {Record<string, string>} meanings
 *
 * @typedef {object} TreeView
 * @property {HTMLElement} root
 * @property {Record<string, any>} parts
 * @property {TreeData} data
 * @property {number} pinned
 * @property {SVGElement[]} drawn
 * @property {number | null} hovered
 * @property {number} painted
 * @property {number} timer
 * @property {Record<string, (value: any) => void>} tell
 * @property {() => void} [destroy]
 */
