"""What single families want differently from the general sizes."""

from __future__ import annotations

from typing import Any

_FOUR = {"num_hidden_layers": 4}
_MIXED = {"num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
_INDEXED = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 8,
            "indexer_compress_ratio": 4}  # fmt: skip
_SHARED = {"num_hidden_layers": 4, "num_kv_shared_layers": 2,
           "layer_types": ["sliding_attention", "full_attention"] * 2}  # fmt: skip
_CONV = {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]}


def _rope(*section: int, **more: Any) -> dict[str, Any]:
    return {
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(section)}
        | more
    }


_RESNET = {"backbone_config": {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 8, 8, 16], "depths": [1, 1, 1, 1],
    "out_features": ["stage1", "stage2", "stage3", "stage4"]}}  # fmt: skip
_M4 = _rope(2, 1, 1)
_TYPED = {kind: {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
          for kind in ("full_attention", "sliding_attention")}  # fmt: skip
_M2 = _rope(1, 1, 0, partial_rotary_factor=0.5)

SETTINGS: dict[str, dict[str, Any]] = {
    "blip-2": {"num_query_tokens": 4, "image_token_index": 280, "qformer_config": {"encoder_hidden_size": 32}},
    "bridgetower": {"hidden_size": 64, "num_attention_heads": 4, "text_config": {"hidden_size": 64},
                    "vision_config": {"hidden_size": 64}},
    "bros": {"hidden_size": 64, "dim_bbox_sinusoid_emb_2d": ..., "head_dim": ...},
    "conditional_detr": _RESNET,
    "dab-detr": _RESNET,
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
             "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2}},
    "deepseek_ocr2": {"text_config": {"topk_group": 1, "num_experts_per_tok": 2, "n_routed_experts": 4,
                                      "mlp_layer_types": ["dense", "sparse"]}},
    "deformable_detr": _RESNET,
    "detr": _RESNET,
    "diffusion_gemma": {"text_config": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16}},
    "donut-swin": {"embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 2, "patch_size": 4},
    "dots3_note": {"vision_config": {"mlp_layer_types": ["dense", "dense"], "per_layer_config": {},
                                     "adapter_in_dim": 32}},
    "esmc": {"num_key_value_heads": 4},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}},
    "gemma3n": {"text_config": _SHARED, "vision_config": {"architecture": "resnet18"}},
    "glm5_next": {"text_config": _FOUR | {"index_topk": 4, "index_kpool": 2}},
    "glm5_next_text": _FOUR | {"index_topk": 4, "index_kpool": 2},
    "blt": {"encoder_config": {"hidden_size_global": 32}, "decoder_config": {"hidden_size_global": 32}},
    "gradium_phonon_tts": {"flow_head_config": {"condition_dim": 32}},
    "granite4_vision": {"deepstack_layer_map": []},
    "idefics": {"vision_config": {"embed_dim": 32, "image_size": 32, "patch_size": 8}},
    "instructblip": {"num_query_tokens": 4, "image_token_index": 280, "qformer_config": {"encoder_hidden_size": 32}},
    "instructblipvideo": {"num_query_tokens": 4, "video_token_index": 280,
                          "qformer_config": {"encoder_hidden_size": 32}},
    "pocket_tts": {"flow_head_config": {"condition_dim": 32}},
    "seggpt": {"image_size": [64, 32], "patch_size": 8, "num_hidden_layers": 2, "merge_index": 0,
               "intermediate_hidden_state_indices": [0, 1], "pretrain_image_size": 32},
    "table-transformer": _RESNET,
    "vjepa2": {"crop_size": 32, "frames_per_clip": 4, "pred_num_mask_tokens": 2, "pred_hidden_size": 32,
               "pred_num_attention_heads": 4},
    "granite_speech5_ctc": {"encoder_config": {"num_key_value_heads": 4}},
    "granite_speech5_encoder": {"num_key_value_heads": 4},
    "nemotron3_5_transcribe_audio": {"diarization_config": {"head_config": {"audio_hidden_size": 32}}},
    "align": {"projection_dim": 64, "vision_config": {"width_coefficient": 0.2, "depth_coefficient": 0.3}},
    "csm": {"codec_config": {"hidden_size": ..., "upsample_groups": 32, "codebook_dim": 32}},
    "chameleon": {"vocabulary_map": {"<image>": 250, "IMGIMGA": 251}},
    "emu3": {"vocabulary_map": {"<image>": 250, "<|extra_200|>": 251}},
    "kosmos-2": {"latent_query_num": 4},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4, "max_2d_position_embeddings": 128, "input_size": 32,
                   "patch_size": 8},
    "mimi": {"upsample_groups": 32, "codebook_dim": 32, "hidden_size": 32},
    "step3p7": {"text_config": {"sliding_window": 4}},
    "siglip2": {"vision_config": {"num_patches": 16}},
    "udop": {"num_decoder_layers": 3},
    "xmod": {"default_language": "en_XX"},
    "whisper": {"max_source_positions": 100, "suppress_tokens": None, "begin_suppress_tokens": None},
    "yolos": {"image_size": [32, 48], "num_detection_tokens": 5},
    "zamba": {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "attention_head_dim": 16,
              "attention_hidden_size": 64, "layers_block_type": ["linear_attention", "hybrid"] * 2, "mamba_expand": 2,
              "n_mamba_heads": 2},
    "zamba2": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2, "num_mem_blocks": 1,
               "attention_head_dim": 16, "attention_hidden_size": 64, "n_mamba_heads": 8, "mamba_headdim": 8,
               "mamba_d_state": 8, "mamba_ngroups": 1, "mamba_expand": 2, "adapter_rank": 8},
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 32},
    **{name: {"max_source_positions": 100}
       for name in ("moss_transcribe_diarize_audio", "qwen2_audio_encoder", "voxtral_encoder")},
    "autoformer": {"label_length": 2, "prediction_length": 4, "context_length": 8, "num_time_features": 2,
                   "lags_sequence": [1, 2]},
    "bailing_hybrid": _FOUR | {"layer_group_size": 2, "n_group": 1, "num_expert_group": 1, "topk_group": 1},
    "bamba": _FOUR | {"attn_layer_indices": [1, 3]},
    "bart": {"encoder_layers": 2, "decoder_layers": 3},
    "bit": {"hidden_sizes": ..., "embedding_size": ...},
    "codegen": {"rotary_dim": 4},
    "cohere_compass": {"text_config": {"rope_parameters": _TYPED}},
    "cohere_compass_text": {"rope_parameters": _TYPED},
    "cosmos3_edge": {"text_config": _M4},
    "cosmos3_edge_text": _M4,
    "deepseek_v2": {"topk_group": 1, "num_experts_per_tok": 2, "n_routed_experts": 4, "moe_intermediate_size": 16},
    "dots1": {"num_key_value_heads": 2, "n_routed_experts": 4, "moe_intermediate_size": 16, "num_experts_per_tok": 2,
              "n_group": 1, "topk_group": 1, "n_shared_experts": 1},
    "ernie4_5_vl_moe": {"text_config": _rope(1, 1, 2)},
    "esm": {"vocab_size": 300, "mask_token_id": 32, "position_embedding_type": "rotary"},
    "falcon_h1": _FOUR | {"mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8},
    "funnel": {"block_sizes": [2, 2], "block_repeats": [1, 1], "num_decoder_layers": 2, "d_head": 8,
               "num_hidden_layers": ..., "num_blocks": ...},
    "gemma2": {"attn_logit_softcapping": 2.0},
    "gemma3n_text": _SHARED,
    "gemma4_text": _SHARED,
    "glm4v": {"text_config": _M4},
    "glm4v_text": _M4,
    "glm4v_moe": {"text_config": _M2},
    "glm4v_moe_text": _M2,
    "glm46v": {"text_config": _M4},
    "glmga": {"text_config": _M4},
    "glm_image": {"text_config": _M4},
    "glm_image_text": _M4,
    "glm_ocr": {"text_config": _M4},
    "glm_ocr_text": _M4,
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": _MIXED,
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl_text": {"head_dim": 8} | _rope(1, 1, 1, 1),
    "hunyuan_vl": {"text_config": {"head_dim": 8} | _rope(1, 1, 1, 1)},
    "hy_v4_vl": {"text_config": _M4},
    "hy_v4_vl_text": _M4,
    "jamba": _FOUR | {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _MIXED,
    "lfm2": _CONV,
    "lfm2_moe": _CONV | {"num_dense_layers": 1},
    "lfm2_vl": {"text_config": _CONV},
    "lfm3": _FOUR,
    "lfm3_vl": {"text_config": _FOUR},
    "lilt": {"hidden_size": 48, "intermediate_size": 48},
    "longformer": {"attention_window": [4, 4], "num_hidden_layers": 2},
    "led": {"attention_window": [4, 4], "encoder_layers": 2, "decoder_layers": 2},
    "longt5": {"local_radius": 20},
    "luke": {"entity_vocab_size": 50, "entity_emb_size": 16},
    "minicpm_ocr": {"text_config": _FOUR},
    "minicpmv4_6": {"text_config": _FOUR},
    "minicpmv4_7": {"text_config": _FOUR},
    "ministral": {"head_dim": 8},
    "mistral4": {"num_key_value_heads": 4, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0, "llama_4_scaling_beta": 0.1,
        "original_max_position_embeddings": 8}},
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_spark": {"audio_config": {"num_hidden_layers": 4}},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemo_speechlm": {"audio_config": {"diarization_config": {"head_config": {"audio_hidden_size": 32}}}},
    "nemotron3_diarization": {"head_config": {"audio_hidden_size": 32}},
    "apertus1p5": {"image_token_offset": 100, "audio_token_offset": 150, "vision_config": {"codebook_size": 50},
                   "audio_config": {"codebook_size": 50}},
    "fast_vlm": {"vision_config": {"architecture": "resnet18", "hidden_size": 32}},
    "perception_lm": {"vision_config": {"architecture": "vit_tiny_patch16_224",
                                        "model_args": {"embed_dim": 36, "depth": 2}}},
    "clap": {"audio_config": {"hidden_size": ...}},
    "exaone4_5_vision": {"window_size": 32},
    "qwen2_5_vl_vision": {"window_size": 32},
    "qwen3_asr_encoder": {"n_window": 16},
    "qwen2_5_omni_thinker": {"text_config": _M4, "vision_start_token_id": 271},
    "qwen3_omni_moe_thinker": {"text_config": _M4, "vision_start_token_id": 271},
    "sam": {"vision_config": {"output_channels": 32, "num_pos_feats": 16}},
    "sam3": {"vision_config": {"fpn_hidden_size": 32}},
    "sam_hq": {"vision_config": {"output_channels": 32, "num_pos_feats": 16}},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 16},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "vibevoice": {"acoustic_tokenizer_config": {"depths": [1] * 7}, "semantic_tokenizer_config": {"depths": [1] * 7}},
    "vibevoice_asr": {"acoustic_tokenizer_encoder_config": {"depths": [1] * 7},
                      "semantic_tokenizer_encoder_config": {"depths": [1] * 7}},
    "mobilebert": {"true_hidden_size": 16, "intra_bottleneck_size": 16},
    "moonshine": {"encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4, "encoder_num_hidden_layers": 2,
                  "decoder_num_hidden_layers": 3},
    "nemotron": {"num_key_value_heads": 2, "head_dim": 8},
    "neomme": {"head_dim": 16},
    "olmo_hybrid": _FOUR,
    "paddleocr_vl": {"text_config": _M4},
    "perceiver": {"d_latents": 32, "num_latents": 6, "d_model": 32, "num_self_attends_per_block": 2},
    "qwen2_5_vl": {"text_config": _M4},
    "qwen2_5_vl_text": _M4,
    "qwen2_vl": {"text_config": _M4},
    "qwen2_vl_text": _M4,
    "qwen3_5": {"text_config": _FOUR},
    "qwen3_5_text": _FOUR,
    "qwen3_5_moe": {"text_config": _FOUR},
    "qwen3_5_moe_text": _FOUR,
    "qwen3_next": _FOUR,
    "qwen4_exp": {"text_config": _FOUR | _INDEXED},
    "qwen4_exp_text": _FOUR | _INDEXED,
    "recurrent_gemma": {"num_hidden_layers": 3, "attention_window_size": 4},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [2, 7]},
    "swin": {"embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 2, "patch_size": 4},
    "t5": {"num_layers": 2, "num_decoder_layers": 3},
    "time_series_transformer": {"prediction_length": 4, "context_length": 8, "num_time_features": 2,
                                "lags_sequence": [1, 2]},
    "informer": {"prediction_length": 4, "context_length": 8, "num_time_features": 2, "lags_sequence": [1, 2]},
    "mamba2": {"num_heads": 8, "head_dim": 8, "hidden_size": 32, "expand": 2},
    "nystromformer": {"num_landmarks": 14, "segment_means_seq_len": 14},
}  # fmt: skip
"""Config entries by family. ``...`` leaves an entry at its default."""

AFTER: dict[str, dict[str, Any]] = {"funnel": {"architectures": ["FunnelModel"]}}
"""Entries set when the config has been made."""

FRAGILE = frozenset({"mobilebert", "dia", "patchtst"})
"""Families that blow up with weights as large as the others get: rounding alone would tell eager from sdpa."""

_CODEC = "a codec of sounds or pictures: nothing attends between the tokens of an input"
_DETECTOR = "a detector: its attention looks at a few sampled places of several maps, not from token to token"
_NET = "a net of convolutions: nothing attends"
_SESSION = "it runs on a session of a whole video, not on one input"
_STAGES = (
    "it finds what a click marks: sizes of its stages depend on one another, and none small enough was found"
)

NOT_A_MODEL: dict[str, str] = (
    dict.fromkeys(
        ("glm_image_vqmodel", "mimi", "mimi_decoder", "neucodec", "pocket_tts_audio_tokenizer",
         "pocket_tts_audio_tokenizer_decoder", "vibevoice_acoustic_tokenizer", "vibevoice_acoustic_tokenizer_decoder",
         "vibevoice_acoustic_tokenizer_encoder", "xcodec", "xcodec2"),
        _CODEC,
    )
    | dict.fromkeys(
        ("d_fine", "deformable_detr", "deimv2", "grounding-dino", "lw_detr", "mask2former", "mm-grounding-dino",
         "omdet-turbo", "oneformer", "pp_doclayout_v3", "pp_doclayout_v4", "rf_detr", "rt_detr", "rt_detr_v2"),
        _DETECTOR,
    )
    | dict.fromkeys(
        ("efficientnet", "pp_ocrv5_mobile_rec", "pp_ocrv5_server_rec", "pp_ocrv6_medium_det", "pp_ocrv6_small_det",
         "textnet", "uvdoc"),
        _NET,
    )
    | dict.fromkeys(("edgetam_video", "sam2_video", "sam3_tracker_video", "sam3_video"), _SESSION)
    | dict.fromkeys(
        ("edgetam", "edgetam_vision_model", "sam2", "sam2_hiera_det_model", "sam2_vision_model", "sam3_tracker"),
        _STAGES,
    )
    | {
        "dinat": "it needs natten, which has to be compiled for the machine",
        "gemma3n_vision": "timm's MobileNet v5, which has one size: 294 million weights",
        "higgs_audio_v2_tokenizer": _CODEC,
        "bark": "three models that run one after another; AutoModel's class has no forward pass",
        "evolla": "AutoModel's class wants a protein encoder that AutoModel does not load",
        "musicgen": "AutoModel's class takes its decoder's config, and is given the whole's",
        "musicgen_melody": "AutoModel's class takes its decoder's config, and is given the whole's",
        "lightglue": "it matches points of two pictures: no tokens of one input",
        "efficientloftr": "it matches points of two pictures: no tokens of one input",
        "fastspeech2_conformer_with_hifigan": "fastspeech2_conformer with a vocoder after it",
        "blt": "four models in one, of bytes and of patches: eager returns layers of another; not compared",
        "xlstm": "recurrent: nothing attends",
        "layoutlmv2": "it needs detectron2, which is not on PyPI",
        "llama4": "transformers 5.24 cannot run it: its output wants image_outputs of a text model (llama4_text runs)",
        "timm_backbone": "a backbone of timm's: which one is not said",
        "voxtral_realtime_text": "AutoModel names a class that transformers does not have",
    }
)  # fmt: skip
"""Families that are not made here, and why."""
