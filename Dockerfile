# The app on a CPU, not as root, on a file system that is only read:
#
#   docker build --tag headlight .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     --memory 4g --publish 127.0.0.1:8501:8501 headlight
#
# Other names, with spaces between: --env STREAMLIT_SERVER_ALLOWED_HOSTS="headlight.example.org localhost"
# torch without CUDA comes from an index that serves it: --build-arg PIP_EXTRA_INDEX_URL=…; without
# one the usual build is installed, which runs on a CPU too, in an image of 6.3 GB in place of 2.2.

# A tag can be moved; a digest cannot. Ask the registry for the one that you trust, and build from it:
#
#   docker buildx imagetools inspect python:3.11-slim --format '{{.Manifest.Digest}}'
#   docker build --build-arg PYTHON_IMAGE=python:3.11-slim@sha256:… --tag headlight .

ARG PYTHON_IMAGE=python:3.11-slim
FROM ${PYTHON_IMAGE} AS build
ARG PIP_EXTRA_INDEX_URL=
ENV WHEELS="/venv/bin/python -m pip install --no-cache-dir --require-hashes --no-deps --only-binary :all:"
WORKDIR /headlight
COPY requirements.lock requirements-cpu.lock requirements-cuda.lock ./
RUN python -m venv /venv
RUN $WHEELS --requirement requirements-cpu.lock || echo "torch: the usual build"
RUN $WHEELS --requirement requirements.lock
RUN /venv/bin/python -m pip check || $WHEELS --requirement requirements-cuda.lock

FROM ${PYTHON_IMAGE}
COPY --from=build /venv /venv
WORKDIR /headlight
COPY .streamlit .streamlit
COPY app app
COPY core core
COPY checkpoints checkpoints
RUN /venv/bin/python -m compileall -q app core
# Named, or else Streamlit asks a service outside for the address of this machine.
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1 STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 STREAMLIT_BROWSER_SERVER_ADDRESS=localhost
USER 65532:65532
EXPOSE 8501
HEALTHCHECK CMD ["/venv/bin/python", "-c", "import urllib.request as r; r.urlopen('http://localhost:8501/_stcore/health', timeout=5)"]
CMD ["/venv/bin/python", "-m", "app.serving.start", "--server.port", "8501"]
