# The app on a CPU, without root, on a read-only file system:
#
#   docker build --tag headlight .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     --memory 4g --publish 127.0.0.1:8501:8501 headlight
#
# To serve other host names, separate them with spaces: --env STREAMLIT_SERVER_ALLOWED_HOSTS="headlight.example.org localhost"
# For torch without CUDA, name an index that has it: --build-arg PIP_EXTRA_INDEX_URL=…. The default
# build also runs on a CPU, but the image grows from 2.2 to 6.3 GB.

# Tags can move, digests cannot. To pin the base image, look up its digest and build from that:
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
RUN $WHEELS --requirement requirements-cpu.lock || echo "torch: the default build"
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
# Without a browser address, Streamlit asks an external service for this machine's address.
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1 STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 STREAMLIT_BROWSER_SERVER_ADDRESS=localhost
USER 65532:65532
EXPOSE 8501
HEALTHCHECK CMD ["/venv/bin/python", "-c", "import urllib.request as r; r.urlopen('http://localhost:8501/_stcore/health', timeout=5)"]
CMD ["/venv/bin/python", "-m", "app.serving.start", "--server.port", "8501"]
